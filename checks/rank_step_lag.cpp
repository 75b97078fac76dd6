#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "checks/check.h"
#include "checks/rank_sides.h"
#include "model/fact_keys.h"
#include "model/rank_words.h"

namespace ddpscope {
namespace {
/// Ranks that wait in a collective, and those that never come to it.
struct Parted {
  RankList waiting;
  RankList others;
};

const RankCounts* counts_of_rank(const Cohort& cohort, std::int64_t rank) {
  const auto found = std::ranges::find(cohort.counts, rank, &RankCounts::rank);
  return found == cohort.counts.end() ? nullptr : &*found;
}

const RankStand* stand_of_rank(const RanksComparedEvent& run, std::int64_t rank) {
  const auto found = std::ranges::find(run.stands, rank, &RankStand::rank);
  return found == run.stands.end() ? nullptr : &*found;
}

/// A rank that failed, or stands still in its step, is not one that had no more to do.
bool left_its_loop(const RanksComparedEvent& run, std::int64_t rank) {
  const RankStand* stand = stand_of_rank(run, rank);
  if (stand != nullptr && stand->ended) return true;
  const auto ending = std::ranges::find(run.endings.ranks, rank, &RankEnding::rank);
  return ending != run.endings.ranks.end() && ending->kind == EndKind::kClean && !run.live;
}

std::vector<Parted> parted_ranks(const RanksComparedEvent& run) {
  std::vector<Parted> all;
  for (const Frontier& frontier : run.frontiers) {
    Parted parted{.waiting = frontier.waiting, .others = {}};
    std::ranges::copy_if(frontier.behind, std::back_inserter(parted.others),
                         [&](std::int64_t rank) { return left_its_loop(run, rank); });
    all.push_back(std::move(parted));
  }
  // A rank that went on to another collective than the gradients of the step.
  for (const CallsDiffer& calls : run.calls_differ) {
    for (const CallSide& side : calls.sides) {
      Parted parted{.waiting = side.ranks, .others = {}};
      for (const CallSide& other : calls.sides) {
        if (&other == &side) continue;
        parted.others.insert(parted.others.end(), other.ranks.begin(), other.ranks.end());
      }
      all.push_back(std::move(parted));
    }
  }
  return all;
}

/// Those of the others that ran fewer backwards than every rank that waits.
struct Lag {
  RankList waiting;
  RankList lagging;
  std::int64_t waits_in = 0;
  std::int64_t ended_after = 0;
};

Lag lag_of(const Parted& parted, const Cohort& cohort) {
  Lag lag;
  for (const std::int64_t rank : parted.waiting) {
    const RankCounts* counts = counts_of_rank(cohort, rank);
    if (counts == nullptr) continue;
    lag.waits_in =
        lag.waiting.empty() ? counts->backwards : std::min(lag.waits_in, counts->backwards);
    lag.waiting.push_back(rank);
  }
  for (const std::int64_t rank : parted.others) {
    const RankCounts* counts = counts_of_rank(cohort, rank);
    if (counts == nullptr || counts->backwards >= lag.waits_in) continue;
    lag.ended_after = std::max(lag.ended_after, counts->backwards);
    lag.lagging.push_back(rank);
  }
  std::ranges::sort(lag.lagging);
  return lag;
}

std::vector<FactScalar> backwards_per_rank(const Cohort& cohort) {
  std::vector<FactScalar> values;
  for (const RankCounts& counts : cohort.counts) {
    values.emplace_back(fmt::format("{}: {}", counts.rank, counts.backwards));
  }
  return values;
}

Finding describe_lag(const Lag& lag, const Cohort& cohort) {
  using enum Applicability;
  const RankCounts* first = counts_of_rank(cohort, lag.lagging.front());
  Finding finding = finding_on(lag.lagging, first->step);
  finding.severity = Severity::kError;
  finding.phase = Phase::kForward;
  finding.what = fmt::format(
      "{} ended the epoch after backward {}, {} in that of backward {}", rank_words(lag.lagging),
      lag.ended_after, rank_words(lag.waiting) + (lag.waiting.size() == 1 ? " waits" : " wait"),
      lag.waits_in);
  finding.why =
      "ranks with fewer batches, or with one that they skipped, issue no collectives for those "
      "that the others still have";
  finding.fixes = {
      {"drop or repeat the tail of the data so that all ranks have as many batches", kSafe},
      {"reduce a flag that says whether every rank still has data, in each step", kSafe},
      {"reduce the decision to skip a batch with a maximum over the ranks before `continue`",
       kLikely}};
  finding.facts = {{fact::kCounter, std::string("backwards")},
                   {fact::kValuePerRank, backwards_per_rank(cohort)},
                   {fact::kLaggingRanks, as_fact(lag.lagging)},
                   {fact::kWaitingRanks, as_fact(lag.waiting)}};
  return finding;
}

/// rank-step-lag; docs/checks/rank-step-lag.md
class RankStepLag final : public Check {
 public:
  void on_ranks_compared(const RanksComparedEvent& run, Findings& findings) override {
    for (const Cohort& cohort : run.cohorts) {
      if (!cohort.averages || cohort.ranks.size() < 2) continue;
      for (const Parted& parted : parted_ranks(run)) {
        const Lag lag = lag_of(parted, cohort);
        if (lag.waiting.empty() || lag.lagging.empty()) continue;
        findings.push_back(describe_lag(lag, cohort));
        break;
      }
    }
  }
};
}  // namespace

std::unique_ptr<Check> make_rank_step_lag() { return std::make_unique<RankStepLag>(); }

}  // namespace ddpscope
