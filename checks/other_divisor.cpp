#include "checks/other_divisor.h"

#include <algorithm>

#include "checks/wrong_scale_text.h"

namespace ddpscope {
namespace {
// What counts tell by chance does not last.
constexpr std::int64_t kSteps = 8;
// Of 16 bits on the wire, beside what the ranks brought. Where that nearly cancels, more of what is
// left is rounding.
constexpr double kRounding = 5e-3;

bool is_no_multiple(const ReductionStep& step) {
  return step.not_linear > 0 && step.noise > kRounding;
}
}  // namespace

ReductionRun steps_with_other_divisor(const Cohort& cohort) {
  ReductionRun run;
  for (const ReductionStep& step : cohort.reductions) {
    if (step.differing > 0 || is_no_multiple(step)) return {};
    if (!step.ratio.has_value()) continue;
    if (run.steps++ == 0) run.first = &step;
    run.last = &step;
    if (step.divisor == 0 || step.divisor != run.first->divisor) return {};
  }
  return run.steps >= kSteps ? run : ReductionRun{};
}

bool is_divisor_seen(const ReductionStep& step) {
  return is_same_ratio(step.weight * static_cast<double>(step.divisor), 1);
}

void tell_unseen_divisor(const ReductionRun& run, Finding& finding) {
  const auto is_plain = [](const ReductionStep& step) {
    return !step.ratio.has_value() || (is_divisor_seen(step) && !step.brings_activations);
  };
  if (std::all_of(run.first, run.last + 1, is_plain)) return;
  finding.severity = Severity::kNote;
  for (Fix& fix : finding.fixes) fix.applicability = Applicability::kNeedsDecision;
}

}  // namespace ddpscope
