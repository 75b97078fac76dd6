#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "checks/check.h"
#include "checks/ending_text.h"
#include "checks/epoch_forecast.h"
#include "checks/finding_text.h"
#include "checks/lag_text.h"
#include "checks/rank_sides.h"
#include "model/fact_keys.h"
#include "model/rank_words.h"

namespace ddpscope {
namespace {
using Counter = std::int64_t RankCounts::*;

std::vector<FactScalar> count_per_rank(const Cohort& cohort, Counter counter) {
  std::vector<FactScalar> values;
  for (const RankCounts& counts : cohort.counts) {
    values.emplace_back(fmt::format("{}: {}", counts.rank, counts.*counter));
  }
  return values;
}

/// As their last heartbeats told; nothing of a rank without one.
std::vector<FactScalar> phase_per_rank(const Cohort& cohort, const std::vector<RankStand>& stands) {
  std::vector<FactScalar> phases;
  for (const RankStand& stand : stands) {
    if (stand.beat_unix_ns == 0 || std::ranges::count(cohort.ranks, stand.rank) == 0) continue;
    phases.emplace_back(
        fmt::format("{}: {}", stand.rank, stand.ended ? "ended" : phase_word(stand.phase)));
  }
  return phases;
}

/// Since when ranks skipped different numbers of steps, or made more backwards for theirs.
std::int64_t skipped_since(const Cohort& cohort, std::int64_t otherwise) {
  for (const DigestField field : {DigestField::kSkippedSteps, DigestField::kBackwards}) {
    const auto differ = std::ranges::find(cohort.digests, field, &DigestsDiffer::field);
    if (differ != cohort.digests.end()) return differ->step;
  }
  return otherwise;
}

/// Of ranks that still run: they may come to the call yet.
void tell_running(Finding& finding) {
  finding.severity = Severity::kWarning;
  finding.why =
      "the ranks meet in a collective now and then, and one of them is elsewhere meanwhile";
  finding.fixes.insert(finding.fixes.begin(),
                       {"let the ranks read as much data between two collectives, and evaluate or "
                        "save on one rank only right after one",
                        Applicability::kLikely});
  finding.facts.push_back({fact::kCause, std::string("behind")});
}

Finding describe_lag(const Lag& lag, const Cohort& cohort, const std::vector<RankStand>& stands) {
  using enum Applicability;
  const RankCounts* first = counts_of_rank(cohort, lag.lagging.front());
  const bool skips = lag.skipped > 0;
  const std::int64_t step = skips ? skipped_since(cohort, first->step) : first->step;
  Finding finding = finding_on(lag.lagging, step);
  finding.severity = Severity::kError;
  finding.phase = Phase::kForward;
  finding.what = lag_words(lag, step);
  finding.why =
      "ranks with fewer batches, or with one that they skipped, issue no collectives for those "
      "that the others still have";
  finding.fixes = {
      {"drop or repeat the tail of the data so that all ranks have as many batches", kSafe},
      {"reduce a flag that says whether every rank still has data, in each step", kSafe},
      {"reduce the decision to skip a batch with a maximum over the ranks before `continue`",
       kLikely}};
  if (skips) {
    finding.why =
        "since then its collectives meet those that the others issue for the batch before, and at "
        "the end they wait for what it does not issue";
    finding.fixes = {finding.fixes.back()};
  }
  if (lag.issued != nullptr) tell_other_call(lag, finding);
  finding.facts = {{fact::kCounter, std::string(skips ? "skipped_steps" : "backwards")},
                   {fact::kValuePerRank, count_per_rank(cohort, skips ? &RankCounts::skipped_steps
                                                                      : &RankCounts::backwards)},
                   {fact::kLaggingRanks, as_fact(lag.lagging)},
                   {fact::kPhasePerRank, phase_per_rank(cohort, stands)},
                   {fact::kWaitingRanks, as_fact(lag.waiting)}};
  if (lag.behind > 0) tell_running(finding);
  return finding;
}

/// rank-step-lag; docs/checks/rank-step-lag.md
class RankStepLag final : public Check {
 public:
  void on_ranks_compared(const RanksComparedEvent& run, Findings& findings) override {
    for (const Cohort& cohort : run.cohorts) {
      if (!cohort.averages || cohort.ranks.size() < 2) continue;
      bool lags = false;
      for (const Parted& parted : parted_ranks(run)) {
        const Lag lag = lag_of(parted, cohort);
        if (lag.waiting.empty() || lag.lagging.empty()) continue;
        findings.push_back(describe_lag(lag, cohort, run.stands));
        lags = true;
        break;
      }
      if (run.live && !lags && !cohort.epochs.empty()) {
        findings.push_back(epoch_forecast(cohort.epochs.front()));
      }
    }
  }
};
}  // namespace

std::unique_ptr<Check> make_rank_step_lag() { return std::make_unique<RankStepLag>(); }

}  // namespace ddpscope
