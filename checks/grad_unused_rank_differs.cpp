#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/missing_text.h"
#include "checks/parameter_drift.h"
#include "checks/rank_sides.h"
#include "checks/unused_parameters.h"
#include "model/fact_keys.h"
#include "model/rank_words.h"

namespace ddpscope {
namespace {
constexpr std::size_t kListedUnused = 64;

bool holds_any_rank(const RankList& some, const RankList& of) {
  return std::ranges::any_of(some, [&](std::int64_t rank) { return std::ranges::count(of, rank); });
}

/// Whether these ranks issued the same collectives nevertheless, as over zero-filled gradients.
bool calls_agree(const Cohort& cohort, const RanksComparedEvent& run) {
  const bool waits = std::ranges::any_of(run.frontiers, [&](const Frontier& frontier) {
    return holds_any_rank(frontier.waiting, cohort.ranks) ||
           holds_any_rank(frontier.behind, cohort.ranks);
  });
  const bool differ = std::ranges::any_of(run.calls_differ, [&](const CallsDiffer& calls) {
    return std::ranges::any_of(calls.sides, [&](const CallSide& side) {
      return holds_any_rank(side.ranks, cohort.ranks);
    });
  });
  return !waits && !differ;
}

/// As a `c10d::Reducer` that waits for gradients.
bool averages_nothing(const GradientSetsDiffer& gradients, const Cohort& cohort) {
  return std::ranges::any_of(cohort.reductions, [&](const ReductionStep& step) {
    return step.step == gradients.step && step.calls == 0;
  });
}

std::vector<FactScalar> causes_per_rank(const Unused& unused) {
  std::vector<FactScalar> causes;
  for (const RankSide& side : unused.causes) {
    causes.emplace_back(fmt::format("{}: {}", side.ranks.front(), side.value));
  }
  return causes;
}

std::vector<FactScalar> calls_per_rank(const Cohort& cohort) {
  std::vector<FactScalar> counts;
  for (const RankCounts& rank : cohort.counts) {
    counts.emplace_back(fmt::format("{}: {}", rank.rank, rank.calls));
  }
  return counts;
}

std::vector<Fix> fixes_of_unused(bool agree) {
  using enum Applicability;
  std::vector<Fix> fixes = {{"give every rank samples of every task in each step", kLikely}};
  if (agree) return fixes;  // they bring zeros
  fixes.push_back(
      {"put zeros where a gradient is undefined, reduce the full list on all ranks, and undefine "
       "those that no rank had",
       kSafe});
  fixes.push_back({"c10d::Reducer with unused detection", kNeedsDecision});
  return fixes;
}

Finding describe_unused(const GradientSetsDiffer& gradients, const Cohort& cohort, bool agree) {
  const Unused unused = unused_like(gradients.parameters.front(), gradients);
  const bool few_without = unused.without.size() <= unused.with.size();
  Finding finding = finding_on(unused.without, gradients.step);
  finding.severity = agree ? Severity::kNote : severity_in(cohort);
  finding.phase = Phase::kBackward;
  finding.model = unused.model;
  finding.module_path = module_of_unused(unused.paths);
  if (unused.paths.size() == 1) set_place(finding, unused.model, unused.paths.front());
  finding.what = unused_words(unused) + words_of_others(gradients, unused);
  finding.why = missing_words_of_ranks(unused.causes);
  finding.why +=
      agree && averages_nothing(gradients, cohort) ? "no collective was issued in that step"
      : agree ? "the ranks issued the same collectives all the same: what lacks a gradient "
                "counts as zero in the average"
              : "a rank that skips a gradient issues other collectives than those that "
                "have it: they hang, or gradients of different parameters are added" +
                    severity_words(cohort);
  finding.fixes = fixes_of_unused(agree);
  std::vector<FactScalar> paths;
  for (std::size_t i = 0; i < std::min(unused.paths.size(), kListedUnused); ++i) {
    paths.emplace_back(unused.paths[i]);
  }
  finding.facts = {{fact::kParameters, std::move(paths)},
                   {fact::kMinorityRanks, as_fact(few_without ? unused.without : unused.with)},
                   {fact::kMajorityRanks, as_fact(few_without ? unused.with : unused.without)},
                   {fact::kCollectiveCountPerRank, calls_per_rank(cohort)}};
  if (!unused.causes.empty())
    finding.facts.push_back({fact::kCausePerRank, causes_per_rank(unused)});
  finding.last_step = gradients.step;
  finding.occurrences = std::max<std::int64_t>(gradients.steps, 1);
  return finding;
}

/// grad-unused-rank-differs; docs/checks/grad-unused-rank-differs.md
class GradUnusedRankDiffers final : public Check {
 public:
  void on_ranks_compared(const RanksComparedEvent& run, Findings& findings) override {
    for (const Cohort& cohort : run.cohorts) {
      if (cohort.ranks.size() < 2) continue;
      for (const GradientSetsDiffer& gradients : cohort.gradients) {
        if (gradients.parameters.empty() || are_apart(cohort, gradients.step)) continue;
        findings.push_back(describe_unused(gradients, cohort, calls_agree(cohort, run)));
      }
    }
  }
};
}  // namespace

std::unique_ptr<Check> make_grad_unused_rank_differs() {
  return std::make_unique<GradUnusedRankDiffers>();
}

}  // namespace ddpscope
