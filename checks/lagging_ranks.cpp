#include "checks/lagging_ranks.h"

#include <algorithm>

#include "checks/ending_text.h"
#include "checks/site_text.h"

namespace ddpscope {
namespace {
const RankStand* stand_of_rank(const RanksComparedEvent& run, std::int64_t rank) {
  const auto found = std::ranges::find(run.stands, rank, &RankStand::rank);
  return found == run.stands.end() ? nullptr : &*found;
}

/// A rank that failed, or stands still in its step, is not one that had no more to do.
bool left_its_loop(const RanksComparedEvent& run, std::int64_t rank) {
  const RankStand* stand = stand_of_rank(run, rank);
  if (stand != nullptr && stand->ended) return true;
  const RankEnding* ending = ending_of(rank, run.endings);
  return ending != nullptr && ending->kind == EndKind::kClean && !run.live;
}

/// Its heart beats, but it is no part of the step in which others wait.
bool is_elsewhere(const RanksComparedEvent& run, std::int64_t rank) {
  constexpr std::int64_t kSilentMs = 4000;  // a heart beats each second
  const RankStand* stand = stand_of_rank(run, rank);
  return run.live && stand != nullptr && !stand->ended && stand->phase != Phase::kReduce &&
         stand->silent_ms >= 0 && stand->silent_ms < kSilentMs;
}

void add_running(const Parted& parted, const Cohort& cohort, Lag& lag) {
  for (const std::int64_t rank : parted.others) {
    const RankCounts* counts = counts_of_rank(cohort, rank);
    const std::int64_t behind = counts == nullptr ? 0 : lag.waits_in - counts->backwards;
    if (behind < 2) continue;
    lag.behind = std::max(lag.behind, behind);
    lag.lagging.push_back(rank);
  }
}

void add_slower(const Parted& parted, const Cohort& cohort, Lag& lag) {
  for (const std::int64_t rank : parted.others) {
    const RankCounts* counts = counts_of_rank(cohort, rank);
    if (counts == nullptr || counts->backwards >= lag.waits_in) continue;
    lag.ended_after = std::max(lag.ended_after, counts->backwards);
    lag.lagging.push_back(rank);
  }
}

void add_skipping(const Parted& parted, const Cohort& cohort, std::int64_t skipped, Lag& lag) {
  for (const std::int64_t rank : parted.others) {
    const RankCounts* counts = counts_of_rank(cohort, rank);
    if (counts == nullptr || counts->skipped_steps <= skipped) continue;
    lag.skipped = std::max(lag.skipped, counts->skipped_steps - skipped);
    lag.lagging.push_back(rank);
  }
}

/// A batch that is left before its collectives begin counts as no skipped step: it looks like a
/// backward that the rank makes for itself. Yet it ends with fewer steps.
void add_leaving(const Parted& parted, const Cohort& cohort, std::int64_t waits_in_step, Lag& lag) {
  const bool made_more = std::ranges::find(cohort.digests, DigestField::kBackwards,
                                           &DigestsDiffer::field) != cohort.digests.end();
  if (!made_more) return;
  for (const std::int64_t rank : parted.others) {
    const RankCounts* counts = counts_of_rank(cohort, rank);
    if (counts == nullptr || counts->step >= waits_in_step) continue;
    lag.skipped = std::max(lag.skipped, waits_in_step - counts->step);
    lag.lagging.push_back(rank);
  }
}

/// Both ranks are in it in the same step: who is slower left nothing out.
bool is_one_call(const CallSide& a, const CallSide& b) {
  return a.call.record.step == b.call.record.step && is_one_line(a.call.site, b.call.site);
}

const CallSide* side_of(const CallsDiffer& calls, std::int64_t rank) {
  const auto side = std::ranges::find_if(
      calls.sides, [rank](const CallSide& one) { return std::ranges::count(one.ranks, rank) > 0; });
  return side == calls.sides.end() ? nullptr : &*side;
}
}  // namespace

const RankCounts* counts_of_rank(const Cohort& cohort, std::int64_t rank) {
  const auto found = std::ranges::find(cohort.counts, rank, &RankCounts::rank);
  return found == cohort.counts.end() ? nullptr : &*found;
}

std::vector<Parted> parted_ranks(const RanksComparedEvent& run) {
  std::vector<Parted> all;
  for (const Frontier& frontier : run.frontiers) {
    Parted parted{.waiting = frontier.waiting, .others = {}};
    std::ranges::copy_if(frontier.behind, std::back_inserter(parted.others),
                         [&](std::int64_t rank) { return left_its_loop(run, rank); });
    all.push_back(std::move(parted));
    Parted running{.waiting = frontier.waiting, .others = {}, .others_run = true};
    std::ranges::copy_if(frontier.behind, std::back_inserter(running.others),
                         [&](std::int64_t rank) { return is_elsewhere(run, rank); });
    all.push_back(std::move(running));
  }
  // A rank that went on to another collective than the gradients of the step.
  for (const CallsDiffer& calls : run.calls_differ) {
    for (const CallSide& side : calls.sides) {
      Parted parted{.waiting = side.ranks, .others = {}, .calls = &calls};
      for (const CallSide& other : calls.sides) {
        if (&other == &side) continue;
        parted.others.insert(parted.others.end(), other.ranks.begin(), other.ranks.end());
      }
      all.push_back(std::move(parted));
    }
  }
  return all;
}

Lag lag_of(const Parted& parted, const Cohort& cohort) {
  Lag lag;
  std::int64_t skipped = 0, waits_in_step = 0;
  for (const std::int64_t rank : parted.waiting) {
    const RankCounts* counts = counts_of_rank(cohort, rank);
    if (counts == nullptr) continue;
    lag.waits_in =
        lag.waiting.empty() ? counts->backwards : std::min(lag.waits_in, counts->backwards);
    waits_in_step = lag.waiting.empty() ? counts->step : std::min(waits_in_step, counts->step);
    skipped = std::max(skipped, counts->skipped_steps);
    lag.waiting.push_back(rank);
  }
  if (parted.others_run) {
    add_running(parted, cohort, lag);
    return lag;
  }
  add_slower(parted, cohort, lag);
  if (parted.calls != nullptr && !lag.lagging.empty()) {
    lag.issued = side_of(*parted.calls, lag.lagging.front());
    lag.awaited = side_of(*parted.calls, lag.waiting.front());
    if (is_one_call(*lag.issued, *lag.awaited)) return {};
  }
  if (lag.lagging.empty()) add_skipping(parted, cohort, skipped, lag);
  if (lag.lagging.empty() && parted.calls == nullptr) {
    add_leaving(parted, cohort, waits_in_step, lag);
  }
  std::ranges::sort(lag.lagging);
  return lag;
}

}  // namespace ddpscope
