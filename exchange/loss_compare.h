#pragma once

#include "exchange/digest_walk.h"

namespace ddpscope {

/// Fills in whether the ranks' losses are means over numbers of targets that differ.
void compare_losses(const RingList& rings, Cohort& cohort);

}  // namespace ddpscope
