#include "checks/parameter_drift.h"

#include <algorithm>
#include <cfloat>

namespace ddpscope {

bool are_frozen(const ValuesDiffer& values) {
  return !values.tensors.empty() &&
         std::ranges::none_of(values.tensors, &DifferingTensor::requires_grad);
}

std::int64_t first_bad_step(const ValuesDiffer& values, const Cohort& cohort) {
  if (is_of_start(values) || are_frozen(values) || !cohort.averages) return values.step;
  for (const ReductionStep& step : cohort.reductions) {
    const bool is_between = step.step >= std::max<std::int64_t>(values.equal_until, 1);
    if (is_between && step.differing > 0) return std::min(step.step + 1, values.step);
  }
  return values.step;
}

bool were_broadcast(const ValuesDiffer& values, const Cohort& cohort) {
  return values.step == 0 && cohort.broadcasts_at_start && !are_frozen(values);
}

bool are_apart(const Cohort& cohort, std::int64_t step) {
  return std::ranges::any_of(cohort.digests, [step](const DigestsDiffer& differ) {
    const bool counts_steps =
        differ.field == DigestField::kSkippedSteps || differ.field == DigestField::kOptimizerSteps;
    return counts_steps && differ.step <= step;
  });
}

const LoadedOnSome* load_on_some(const ValuesDiffer& values, const Cohort& cohort) {
  if (is_of_start(values) || are_frozen(values)) return nullptr;
  const auto found = std::ranges::find_if(cohort.loads, [&values](const LoadedOnSome& load) {
    return load.step >= values.equal_until && load.step <= values.step;
  });
  return found == cohort.loads.end() ? nullptr : &*found;
}

bool had_equal_gradients(const ValuesDiffer& values, const Cohort& cohort) {
  if (is_of_start(values) || are_frozen(values) || values.equal_until < 0) return false;
  std::int64_t compared = 0;
  const std::int64_t first = std::max<std::int64_t>(values.equal_until, 1);
  for (const ReductionStep& step : cohort.reductions) {
    if (step.step < first || step.step >= values.step) continue;
    if (step.differing > 0) return false;
    ++compared;
  }
  return compared > 0 && compared >= values.step - first;
}

bool is_rounding_of(const ValuesDiffer& values, const Cohort& cohort) {
  constexpr double kRoundings = 8 * FLT_EPSILON;
  if (values.estimate.empty() || values.estimate.front().step != values.step) return false;
  return values.estimate.front().relative <= kRoundings && had_equal_gradients(values, cohort) &&
         differing_input(values, cohort).empty();
}

bool are_equal_again(const ValuesDiffer& values, const Cohort& cohort) {
  return !cohort.equal_steps.empty() && cohort.equal_steps.back() > values.step;
}

std::string differing_input(const ValuesDiffer& values, const Cohort& cohort) {
  if (is_of_start(values) || are_frozen(values)) return "";
  if (load_on_some(values, cohort) != nullptr) return kByLoad;
  const auto before = [&](std::int64_t step) { return step <= values.step; };
  const auto has = [&](DigestField field) {
    const auto differ = std::ranges::find(cohort.digests, field, &DigestsDiffer::field);
    return differ != cohort.digests.end() && before(differ->first_step);
  };
  if (!cohort.gradients.empty() && before(cohort.gradients.front().step) &&
      !are_apart(cohort, cohort.gradients.front().step)) {
    return kByGradient;
  }
  const bool by_value = std::ranges::any_of(cohort.reductions, [&](const ReductionStep& step) {
    return step.differing > 0 && step.step < values.step && !are_apart(cohort, step.step);
  });
  if (by_value && cohort.averages) return kByGradient;
  if (has(DigestField::kSkippedSteps) || has(DigestField::kOptimizerSteps)) return "skip";
  if (has(DigestField::kLearningRate)) return "lr";
  if (has(DigestField::kState)) return "state";
  if (has(DigestField::kOptimizers) || has(DigestField::kMembers)) return "options";
  return "";
}

}  // namespace ddpscope
