#pragma once

#include <string>
#include <vector>

#include "model/finding.h"
#include "model/rank_compare_event.h"

namespace ddpscope {

/// The sum or mean is known to one rank, and nothing sent it back.
bool is_left_on_one_rank(const ReductionStep& step, const std::string& cause);

/// The texts of grad-not-reduced, by a step of it and its cause.
std::string why_unreduced(const ReductionStep& step, const std::string& cause);
std::vector<Fix> fixes_for_unreduced(const ReductionStep& step, const std::string& cause,
                                     const Cohort& cohort);

}  // namespace ddpscope
