#pragma once

#include "exchange/digest_walk.h"

namespace ddpscope {

/// Compares gradients before and after their reduction: fills `reductions` of the cohort, one per
/// step of which all its ranks told.
void compare_reductions(const RingList& rings, Cohort& cohort);

}  // namespace ddpscope
