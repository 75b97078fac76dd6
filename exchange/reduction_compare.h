#pragma once

#include "exchange/digest_walk.h"

namespace ddpscope {

/// Compares gradients before and after their reduction: fills `reductions` of the cohort, one per
/// step of which all its ranks told. `complete`: every rank of the run left a ring; without it what
/// others brought is not known, and only bits are compared.
void compare_reductions(const RingList& rings, bool complete, Cohort& cohort);

}  // namespace ddpscope
