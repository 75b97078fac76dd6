#pragma once

#include "exchange/digest_walk.h"
#include "exchange/step_comparison.h"

namespace ddpscope::reductions {

/// What the ranks tell of their gradients in each step, and of what happened in it.
Steps steps_of(const RingList& rings, const Cohort& cohort);

}  // namespace ddpscope::reductions
