#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checks/reduction_text.h"
#include "model/finding.h"
#include "model/rank_compare_event.h"

namespace ddpscope {

/// All step with what arrived on one of them, and the others had brought something else.
bool is_of_one_rank(const ReductionStep& step);

/// Within 2 %.
bool is_same_ratio(double value, double wanted);

/// Who reduced, and how many ranks the run has.
struct ReductionScope {
  std::size_t ranks = 1;
  std::int64_t world = 1;
};

/// What grad-reduced-wrong-scale says of a step, by its cause.
std::string wrong_scale_what(const ReductionStep& step, std::string_view cause, std::size_t ranks);
/// `lasts`: it is not one step among many that were right.
std::string wrong_scale_why(const ReductionStep& step, std::string_view cause, bool lasts,
                            const ReductionScope& scope);
std::vector<Fix> wrong_scale_fixes(const ReductionStep& step, std::string_view cause, bool lasts,
                                   const ReductionScope& scope);

/// Makes a note of sums that are right where the loss is one of all ranks: in each of these steps
/// they gave each other what their forwards computed. Else nothing.
void tell_parts_of_loss(const ReductionRun& run, Finding& finding);

std::vector<Fact> wrong_scale_facts(const ReductionStep& step, std::string_view cause,
                                    std::size_t ranks, const ReducedParameter& place);

}  // namespace ddpscope
