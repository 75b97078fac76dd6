#pragma once

#include "exchange/digest_walk.h"
#include "exchange/reduction_record.h"
#include "exchange/step_comparison.h"

namespace ddpscope::reductions {

/// The weights of two ranks differ, as far as they are known.
bool are_other_weights(double a, double b);

/// What one rank tells of a parameter, whose rank multiplied it with these factors.
void add_rank(Parameter& parameter, const ToldReduction& told, double clip_factor, double weight,
              std::int64_t rank);

/// What the ranks tell of their gradients in each step, and of what happened in it.
Steps steps_of(const RingList& rings, const Cohort& cohort);

}  // namespace ddpscope::reductions
