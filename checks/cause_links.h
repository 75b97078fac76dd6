#pragma once

#include "model/finding.h"

namespace ddpscope {

/// Whether both findings describe one act of the program, and `effect` only follows from `cause`.
bool explains(const Finding& cause, const Finding& effect);

}  // namespace ddpscope
