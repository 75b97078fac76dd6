#pragma once

#include "model/finding.h"

namespace ddpscope {

/// Findings of several ranks with one fingerprint become one, with all ranks. Where the sentences
/// of the ranks differ, the joint one says which rank saw what, minority first.
Findings join_findings(Findings findings);

}  // namespace ddpscope
