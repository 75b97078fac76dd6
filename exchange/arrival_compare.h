#pragma once

#include "exchange/digest_walk.h"

namespace ddpscope {

/// Compares when the ranks come to the first collective of each step, counted from the end of the
/// last collective of the step before, so that clocks of hosts need not agree. Fills `stragglers`.
void compare_arrivals(const RingList& rings, Cohort& cohort);

}  // namespace ddpscope
