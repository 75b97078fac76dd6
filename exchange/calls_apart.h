#pragma once

#include "exchange/digest_walk.h"

namespace ddpscope {

/// Ranks that take part in the averages of others without a step of their own, as one whose data
/// has ended: the same call then falls into other steps. Told as a difference in the number of
/// optimizer steps, where no other count of steps tells of it. Nothing where weights are broadcast
/// while they train, which makes replicas equal again.
void compare_steps_of_calls(const RingList& rings, Cohort& cohort);

}  // namespace ddpscope
