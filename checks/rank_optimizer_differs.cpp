#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

#include "checks/check.h"
#include "checks/loss_factors.h"
#include "checks/optimizer_text.h"

namespace ddpscope {
namespace {
// What is more exact stands first; `optimizers` covers types, and options of later groups.
constexpr auto kComparedFields = std::to_array<FieldWords>({
    {DigestField::kMembers, "members", "number of members"},
    {DigestField::kGroups, "groups", "number of parameter groups"},
    {DigestField::kLearningRate, "learning_rate", "learning rate"},
    {DigestField::kWeightDecay, "weight_decay", "weight decay"},
    {DigestField::kMomentum, "momentum", "momentum"},
    {DigestField::kState, "state", "state at the first step:"},
    {DigestField::kLossScale, "loss_scale", "loss scale"},
    {DigestField::kSkippedSteps, "skipped_steps", "number of skipped steps"},
    {DigestField::kOptimizerSteps, "optimizer_steps", "number of optimizer steps"},
    {DigestField::kOptimizers, "options", "options"},
});

/// Part of what `optimizers` is a hash of.
bool is_hashed(DigestField field) {
  using enum DigestField;
  return field == kGroups || field == kLearningRate || field == kWeightDecay || field == kMomentum;
}

bool is_meant(const DigestsDiffer& differ, const Cohort& cohort) {
  return differ.field == DigestField::kLossScale &&
         loss_factors(differ, cohort) == LossFactors::kWeightedMean;
}

/// rank-optimizer-differs; docs/checks/rank-optimizer-differs.md
class RankOptimizerDiffers final : public Check {
 public:
  void on_ranks_compared(const RanksComparedEvent& run, Findings& findings) override {
    for (const Cohort& cohort : run.cohorts) {
      if (cohort.ranks.size() >= 2) look_at(cohort, findings);
    }
  }

 private:
  static void look_at(const Cohort& cohort, Findings& findings) {
    bool explained = false;  // what the hash of all options says is said already
    for (const FieldWords& words : kComparedFields) {
      const auto differ = std::ranges::find(cohort.digests, words.field, &DigestsDiffer::field);
      if (differ == cohort.digests.end() || !is_lasting(*differ)) continue;
      if (is_meant(*differ, cohort)) continue;
      const bool is_hash = words.field == DigestField::kOptimizers;
      if (is_hash && explained) continue;
      findings.push_back(describe_difference(*differ, words, cohort));
      explained |= is_hashed(words.field);
    }
  }
};
}  // namespace

std::unique_ptr<Check> make_rank_optimizer_differs() {
  return std::make_unique<RankOptimizerDiffers>();
}

}  // namespace ddpscope
