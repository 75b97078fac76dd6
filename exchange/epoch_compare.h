#pragma once

#include "exchange/digest_walk.h"

namespace ddpscope {

/// Fills in the first step in which all ranks began an epoch and not of the same number of batches.
void compare_epochs(const RingList& rings, Cohort& cohort);

}  // namespace ddpscope
