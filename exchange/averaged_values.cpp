#include "exchange/averaged_values.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kMostly = 4;  // times as many
constexpr std::int64_t kMixedInARow = 2;

bool all_step_with_means(const std::vector<ReductionStep>& steps) {
  std::int64_t averaged = 0;
  std::int64_t combined = 0;
  for (const ReductionStep& step : steps) {
    averaged += step.averaged;
    combined += step.combined;
  }
  return averaged > kMostly * combined;
}

/// By the operation of most of what was reduced, as by a maximum in place of the sum.
bool are_combined(const ReductionStep& step) {
  using enum ReduceKind;
  const bool by_other = step.reduce == kMax || step.reduce == kMin || step.reduce == kProduct;
  return by_other && step.combined > step.averaged;
}

/// Calls between backward and step brought something into the gradients of equal replicas, though
/// not the same on all: as a sum that a program makes of what it sends to each rank by itself. Or
/// what all have is no sum.
bool mean_to_average(const Cohort& cohort) {
  std::int64_t in_a_row = 0;
  for (const ReductionStep& step : cohort.reductions) {
    const bool mixes =
        (step.mixed > 0 || are_combined(step)) && step.reduces_last && !step.is_alone();
    in_a_row = mixes ? in_a_row + 1 : 0;
    if (in_a_row >= kMixedInARow) return cohort.equal_at_start && cohort.exchanges_tensors;
  }
  return false;
}
}  // namespace

bool averages_by_value(const Cohort& cohort) {
  return all_step_with_means(cohort.reductions) || mean_to_average(cohort);
}

}  // namespace ddpscope
