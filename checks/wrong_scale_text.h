#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/finding.h"
#include "model/rank_compare_event.h"

namespace ddpscope {

/// All step with what arrived on one of them, and the others had brought something else.
bool is_of_one_rank(const ReductionStep& step);

/// What grad-reduced-wrong-scale says of a step, by its cause.
std::string wrong_scale_what(const ReductionStep& step, std::string_view cause, std::size_t ranks);
/// `lasts`: it is not one step among many that were right.
std::string wrong_scale_why(const ReductionStep& step, std::string_view cause, bool lasts);
std::vector<Fix> wrong_scale_fixes(const ReductionStep& step, std::string_view cause, bool lasts);

}  // namespace ddpscope
