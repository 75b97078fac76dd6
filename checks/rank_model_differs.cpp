#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "checks/check.h"
#include "checks/rank_sides.h"
#include "checks/training_differs.h"
#include "model/fact_keys.h"
#include "model/rank_words.h"

namespace ddpscope {
namespace {
bool exchanged_anything(const Cohort& cohort) {
  return std::ranges::any_of(cohort.counts, [](const RankCounts& rank) { return rank.calls > 0; });
}

/// A program that averages nothing may have as many models as it has ranks.
Severity severity_of_models(const Cohort& cohort, const RanksComparedEvent& run) {
  if (cohort.averages) return Severity::kError;
  const bool ended_early = std::ranges::any_of(
      run.endings.ranks, [](const RankEnding& ending) { return ending.kind != EndKind::kClean; });
  const bool began =
      std::ranges::any_of(cohort.counts, [](const RankCounts& rank) { return rank.step > 0; });
  const bool calls = run.calls > 0 || exchanged_anything(cohort);
  return calls && ended_early && !began ? Severity::kWarning : Severity::kNote;
}

std::string text_of_paths(const ModelsDiffer& models) {
  std::string text;
  for (const RankSide& side : models.paths) {
    text += fmt::format("{}{} on {}", text.empty() ? "" : " and ",
                        side.value.empty() ? "absent" : side.value, rank_words(side.ranks));
  }
  return text;
}

/// Else the lists part in which tensor stands there.
bool is_of_one_tensor(const ModelsDiffer& models) {
  return models.cause != "count" && models.paths.size() == 1;
}

std::string text_of_models(const ModelsDiffer& models) {
  if (!is_of_one_tensor(models)) {
    std::string text = fmt::format("registered tensor {} is {} ({})", models.first_index,
                                   text_of_paths(models), models.cause);
    if (models.counts.size() > 1) text += "; tensors: " + sides_text(models.counts);
    return text;
  }
  return fmt::format("{} is {} ({})", models.paths.front().value, sides_text(models.values),
                     models.cause);
}

std::vector<Fix> fixes_for_models(const std::string& cause) {
  using enum Applicability;
  if (cause == "trainable") {
    return {{"freeze and unfreeze the same parameters on all ranks", kSafe}};
  }
  if (cause == "order") {
    return {
        {"register children and parameters in one fixed order: not while iterating an "
         "unordered container, and not by rank",
         kSafe}};
  }
  return {{"build the model from the same configuration on every rank", kSafe},
          {"declare what belongs to one rank: Attachment::declare with kRankLocal or kSharded",
           kNeedsDecision}};
}

/// Of a model that one rank keeps for itself, or that others were to have as well.
Finding of_some_ranks(const ModelsDiffer& models, Finding finding) {
  RankList holders;
  for (const RankSide& side : models.paths) {
    if (!side.value.empty()) holders.insert(holders.end(), side.ranks.begin(), side.ranks.end());
  }
  std::ranges::sort(holders);
  finding.severity = Severity::kNote;
  finding.ranks = holders;
  finding.module_path.clear();
  finding.subject.clear();
  finding.what =
      fmt::format("{} alone {} this model ({}); tensors: {}", rank_words(holders),
                  holders.size() == 1 ? "has" : "have", models.cause, sides_text(models.counts));
  finding.why =
      "it is not compared; where its gradients are to be averaged, the other ranks need it, too";
  finding.fixes = {{"build it on every rank, if all of them train it", Applicability::kLikely}};
  return finding;
}

Finding describe_models(const ModelsDiffer& models, const Cohort& cohort,
                        const RanksComparedEvent& run) {
  const auto& sides = is_of_one_tensor(models) ? models.values : models.paths;
  const RankList minority = minority_of(sides);
  Finding finding = finding_on(minority, models.step);
  finding.severity = severity_of_models(cohort, run);
  const auto named = std::ranges::find_if(models.paths, [](auto& s) { return !s.value.empty(); });
  set_place(finding, models.model, named == models.paths.end() ? "" : named->value);
  finding.what = text_of_models(models);
  finding.why =
      "collectives go by position and not by name: tensors of equal size in another order pass and "
      "are mixed, others end or hang the run";
  finding.fixes = fixes_for_models(models.cause);
  finding.facts = {{fact::kCause, models.cause},
                   {fact::kFirstIndex, models.first_index},
                   {fact::kPathPerRank, per_side(models.paths)},
                   {fact::kMinorityRanks, as_fact(minority)}};
  if (is_of_one_tensor(models) && !models.values.empty()) {
    finding.facts.push_back({fact::kValuePerRank, per_side(models.values)});
  }
  if (!models.counts.empty()) {
    finding.facts.push_back({fact::kCountsPerRank, per_side(models.counts)});
  }
  if (!models.only_on.empty()) {
    finding.facts.push_back({fact::kOnlyOnRanks, per_side(models.only_on)});
  }
  return models.is_of_some ? of_some_ranks(models, std::move(finding)) : finding;
}

/// rank-model-differs; docs/checks/rank-model-differs.md
class RankModelDiffers final : public Check {
 public:
  void on_ranks_compared(const RanksComparedEvent& run, Findings& findings) override {
    for (const Cohort& cohort : run.cohorts) {
      if (cohort.ranks.size() < 2) continue;
      for (const ModelsDiffer& models : cohort.models) {
        findings.push_back(describe_models(models, cohort, run));
      }
      find_other_operators(cohort, findings);
    }
  }
};
}  // namespace

std::unique_ptr<Check> make_rank_model_differs() { return std::make_unique<RankModelDiffers>(); }

}  // namespace ddpscope
