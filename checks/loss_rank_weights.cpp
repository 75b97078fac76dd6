#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "checks/check.h"
#include "checks/rank_sides.h"
#include "model/fact_keys.h"
#include "model/rank_words.h"

namespace ddpscope {
namespace {
using enum Applicability;

/// The program gives the ranks weights of its own before it adds their gradients.
bool weighs_gradients(const Cohort& cohort) {
  const auto is_weighed = [](const ReductionStep& step) {
    return 2 * step.not_linear > step.sampled;
  };
  const auto weighed = std::ranges::count_if(cohort.reductions, is_weighed);
  return 2 * weighed > std::ssize(cohort.reductions);
}

std::vector<Fix> fixes_for_weights() {
  return {{"sum the loss, add the counts of valid targets over the ranks, divide by their sum and "
           "multiply by the number of ranks",
           kLikely},
          {"give every rank as many valid targets", kLikely},
          {"a mean per rank is meant: suppress this finding with the reason", kNeedsDecision}};
}

Finding describe_weights(const LossWeights& weights, const Cohort& cohort) {
  const auto [least, most] = std::ranges::minmax_element(weights.targets);
  const std::int64_t heavy =
      cohort.ranks[static_cast<std::size_t>(least - weights.targets.begin())];
  const std::int64_t light = cohort.ranks[static_cast<std::size_t>(most - weights.targets.begin())];
  Finding finding = finding_on(cohort.ranks, weights.step);
  finding.severity = Severity::kWarning;
  finding.phase = Phase::kForward;
  finding.module_path = weights.module;
  finding.op = weights.op;
  finding.what = fmt::format(
      "rank {} averages the loss over {:.7g} valid targets, rank {} over {:.7g}; a target on rank "
      "{} weighs {:.3g} times as much",
      heavy, *least, light, *most, heavy, weights.ratio);
  finding.why = fmt::format(
      "in step {}, the median of {} steps: each rank divides by its own count, and the means are "
      "averaged with equal weights",
      weights.at_step, weights.steps);
  finding.fixes = fixes_for_weights();
  finding.facts = {{fact::kValidPerRank,
                    std::vector<FactScalar>(weights.targets.begin(), weights.targets.end())},
                   {fact::kWeightRatio, weights.ratio},
                   {fact::kReduction, std::string("mean")},
                   {fact::kWindowSteps, weights.steps}};
  if (weights.backwards > 0) finding.facts.push_back({fact::kPeriod, weights.backwards});
  return finding;
}

/// loss-rank-weights; docs/checks/loss-rank-weights.md
class LossRankWeights final : public Check {
 public:
  void on_ranks_compared(const RanksComparedEvent& run, Findings& findings) override {
    for (const Cohort& cohort : run.cohorts) {
      if (!cohort.averages || weighs_gradients(cohort)) continue;
      for (const LossWeights& weights : cohort.loss_weights) {
        findings.push_back(describe_weights(weights, cohort));
      }
    }
  }
};
}  // namespace

std::unique_ptr<Check> make_loss_rank_weights() { return std::make_unique<LossRankWeights>(); }

}  // namespace ddpscope
