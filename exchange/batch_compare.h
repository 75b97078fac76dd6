#pragma once

#include "exchange/digest_walk.h"

namespace ddpscope {

/// Compares the batches of the first steps and fills `same_batches` of the cohort.
void compare_batches(const RingList& rings, Cohort& cohort);

}  // namespace ddpscope
