#pragma once

#include "exchange/digest_walk.h"

namespace ddpscope {

/// Compares what the ranks train with: fills `same_batches` of the cohort from the first steps, and
/// `same_random` where all its ranks drew from equal states.
void compare_batches(const RingList& rings, Cohort& cohort);

}  // namespace ddpscope
