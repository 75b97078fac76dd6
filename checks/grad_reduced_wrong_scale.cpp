#include <algorithm>
#include <cmath>
#include <memory>
#include <string_view>

#include "checks/check.h"
#include "checks/other_divisor.h"
#include "checks/rank_sides.h"
#include "checks/reduction_text.h"
#include "checks/unreduced_gradients.h"
#include "checks/wrong_scale_text.h"
#include "model/statistics.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kScaledSteps = 3;
constexpr double kNotLinear = 1e-2;
constexpr double kNotLinearInHalf = 1e-1;
constexpr std::size_t kUsualSteps = 8;
constexpr double kRoundingsPerRank =
    4 * 0x1p-24;                 // of float32; a sum of ranks leaves less than one
constexpr double kUnusual = 16;  // times the median

bool is_short(const std::string& dtype) { return dtype == "float16" || dtype == "bfloat16"; }

struct WrongScale {
  std::string_view cause;
  ReductionRun run;
};

/// grad-reduced-wrong-scale; docs/checks/grad-reduced-wrong-scale.md
class GradReducedWrongScale final : public Check {
 public:
  void on_ranks_compared(const RanksComparedEvent& run, Findings& findings) override {
    world_ = run.world_size;
    for (const Cohort& cohort : run.cohorts) {
      if (cohort.ranks.size() < 2) continue;
      if (cohort.averages) {
        judge(cohort, findings);
        judge({.ranks = cohort.ranks, .averages = true, .reductions = cohort.owned}, findings);
      } else {
        find_sent(cohort, findings);
      }
    }
  }

 private:
  void judge(const Cohort& cohort, Findings& findings) const {
    const auto ranks = static_cast<double>(cohort.ranks.size());
    const auto has_ratio = [](double wanted) {
      return [wanted](const ReductionStep& step) {
        // Gradients may be divided by the number of backwards as well.
        const bool is_period = is_same_ratio(wanted, 1.0 / static_cast<double>(step.backwards));
        return step.differing == 0 && step.ratio.has_value() &&
               is_same_ratio(*step.ratio, wanted) && !is_period;
      };
    };
    const auto share = ranks / static_cast<double>(world_);
    const auto is_divided_by_period = [](const ReductionStep& step) {
      return step.differing == 0 && step.divides_by_period && step.ratio.has_value() &&
             is_same_ratio(*step.ratio, 1.0 / static_cast<double>(step.backwards));
    };
    const auto is_partly_sum = [](const ReductionStep& step) {
      return step.differing == 0 && step.undivided > 0;
    };
    const auto is_lost = [](const ReductionStep& step) { return step.lost > 0; };
    const auto is_not_linear = [](const ReductionStep& step) {
      const double limit = is_short(step.worst.dtype) ? kNotLinearInHalf : kNotLinear;
      return step.differing == 0 && step.residual > limit && step.noise > limit / 100;
    };
    const auto lasting = [&cohort](const auto& is_wrong) {
      return first_run_of(cohort.reductions, kScaledSteps, is_wrong);
    };
    for (const auto& [cause, found] :
         {WrongScale{"sum_not_divided", lasting(has_ratio(ranks))},
          WrongScale{"divided_twice", lasting(has_ratio(1 / ranks))},
          WrongScale{"divided_twice", share < 1 ? lasting(has_ratio(share)) : ReductionRun()},
          WrongScale{"accumulation", lasting(is_divided_by_period)},
          WrongScale{kOtherDivisor, steps_with_other_divisor(cohort)},
          WrongScale{"sum_not_divided", lasting(is_partly_sum)},
          WrongScale{"lost", lasting(is_lost)}, WrongScale{"not_linear", lasting(is_not_linear)}}) {
      if (found.first == nullptr) continue;
      return findings.push_back(describe(cohort, cause, found));
    }
    find_once(cohort, findings);
  }

  /// Nothing is summed up, and all ranks step with the gradients of one.
  void find_sent(const Cohort& cohort, Findings& findings) const {
    const ReductionRun run = first_run_of(cohort.reductions, kScaledSteps, is_of_one_rank);
    if (run.first != nullptr) findings.push_back(describe(cohort, "not_linear", run));
  }

  /// One step among many that were right.
  void find_once(const Cohort& cohort, Findings& findings) const {
    const auto& steps = cohort.reductions;
    if (steps.size() < kUsualSteps) return;
    std::vector<double> noises;
    for (const ReductionStep& step : steps) noises.push_back(step.noise);
    const double roundings = kRoundingsPerRank * static_cast<double>(cohort.ranks.size());
    const double limit = std::max(roundings, kUnusual * quantile(noises, 0.5));
    const auto is_wrong = [limit](const ReductionStep& step) {
      return step.differing > 0 || (step.noise > limit && !is_short(step.worst.dtype));
    };
    if (4 * std::ranges::count_if(steps, is_wrong) > std::ssize(steps)) return;
    const ReductionRun run = first_run_of(steps, 1, is_wrong);
    // What differs twice in a row, or was left out, is not reduced.
    if (run.first == nullptr || (run.first->differing > 0 && run.steps > 1)) return;
    if (std::ranges::any_of(steps, was_left_out)) return;
    findings.push_back(describe(cohort, "not_linear", run));
  }

  Finding describe(const Cohort& cohort, std::string_view cause, const ReductionRun& run) const {
    const ReductionStep& step = *run.first;
    const ReductionScope scope{cohort.ranks.size(), world_};
    const bool lasts = run.steps >= kScaledSteps;
    const bool is_linear = cause != "not_linear";
    const ReducedParameter& place = cause == "lost"      ? step.first_lost
                                    : step.differing > 0 ? step.first_differing
                                    : step.undivided > 0 ? step.first_undivided
                                                         : step.worst;
    Finding finding = finding_on(cohort.ranks, step.step);
    finding.severity = is_linear ? Severity::kWarning : Severity::kError;
    finding.phase = Phase::kReduce;
    finding.model = place.model;
    const std::int64_t wrong = step.differing > 0 ? step.differing : step.not_linear;
    const std::int64_t unlike = cause == "lost" ? step.lost : step.undivided;
    if (is_linear ? unlike == 1 : wrong <= 1) set_place(finding, place.model, place.path);
    finding.last_step = run.last->step;
    finding.occurrences = run.steps;
    finding.what = wrong_scale_what(step, cause, cohort.ranks.size());
    finding.why = wrong_scale_why(step, cause, lasts, scope);
    finding.fixes = wrong_scale_fixes(step, cause, lasts, scope);
    if (cause == "sum_not_divided") tell_parts_of_loss(run, finding);
    if (cause == kOtherDivisor) tell_unseen_divisor(run, finding);
    finding.facts = wrong_scale_facts(step, cause, cohort.ranks.size(), place);
    return finding;
  }

  std::int64_t world_ = 1;
};
}  // namespace

std::unique_ptr<Check> make_grad_reduced_wrong_scale() {
  return std::make_unique<GradReducedWrongScale>();
}

}  // namespace ddpscope
