#pragma once

#include "checks/reduction_text.h"
#include "model/rank_compare_event.h"

namespace ddpscope {

inline constexpr char kOtherDivisor[] = "other_divisor";

/// Steps of which each divides what the ranks sum up by the same number, which is not that of the
/// ranks, nor of rows or backwards. Empty where they are few, or in some step it was another one.
ReductionRun steps_with_other_divisor(const Cohort& cohort);

/// Each rank was seen to divide by it.
bool is_divisor_seen(const ReductionStep& step);

/// Makes a note of what may be meant: of a division that was not seen in each of these steps, or of
/// ranks that give each other what their forwards compute, and may each have a part of one loss.
void tell_unseen_divisor(const ReductionRun& run, Finding& finding);

}  // namespace ddpscope
