#pragma once

#include <string>
#include <vector>

#include "model/finding.h"
#include "model/rank_compare_event.h"

namespace ddpscope {

/// The texts of rank-parameters-differ. `input`: what the ranks differed in before.
std::string what_parameters_differ(const ValuesDiffer& values, const std::string& cause,
                                   bool is_rounding);
std::string why_parameters_differ(const ValuesDiffer& values, const std::string& input,
                                  const Cohort& cohort);
std::vector<Fix> fixes_for_parameters(const ValuesDiffer& values, const std::string& input,
                                      const Cohort& cohort);

}  // namespace ddpscope
