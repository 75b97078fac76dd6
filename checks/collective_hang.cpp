#include <algorithm>
#include <memory>

#include "checks/call_text.h"
#include "checks/check.h"
#include "checks/ending_text.h"
#include "checks/hang_text.h"
#include "model/clock.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kTypicalWaits = 5;
// Whoever ended the ranks may not have waited as long as `hang_after_s`.
constexpr std::int64_t kAfterTheFactMs = 5000;
constexpr std::int64_t kSilentMs = 4000;  // a heart beats each second
constexpr std::uint64_t kFirstCalls = 3;

/// It failed by itself, or was killed before the others could wait for it: rank-first-failure
/// tells of it.
bool failed(const RankEnding* ending, const Frontier& frontier) {
  if (ending == nullptr || ending->stopped || ending->kind == EndKind::kClean) return false;
  if (ending->kind != EndKind::kKilled) return !is_reaction(*ending);
  return ending->unix_ns && *ending->unix_ns / kMsNs <= frontier.since_unix_ns / kMsNs + 1000;
}

Absence absence_of(const RankStand& stand, const RanksComparedEvent& run,
                   const Frontier& frontier) {
  const RankEnding* ending = ending_of(stand.rank, run.endings);
  if (stand.ended || (ending != nullptr && ending->kind == EndKind::kClean)) return Absence::kEnded;
  if (failed(ending, frontier)) return Absence::kGone;
  if (run.live && stand.silent_ms >= kSilentMs) return Absence::kSilent;
  if (!run.live) return Absence::kAlive;
  const bool moves = stand.still_ms >= 0 && stand.still_ms * 2 < frontier.waited_ms;
  return moves ? Absence::kSlow : Absence::kStuck;
}

RankList still_waiting(const Frontier& frontier, const RanksComparedEvent& run) {
  RankList waiting;
  for (const std::int64_t rank : frontier.waiting) {
    const RankEnding* ending = ending_of(rank, run.endings);
    if (ending == nullptr || ending->kind != EndKind::kClean) waiting.push_back(rank);
  }
  return waiting;
}

/// In another group; null where it waits in none.
const Frontier* where_waits(const RankStand& stand, const Frontier& here,
                            const RanksComparedEvent& run) {
  const auto found = std::ranges::find_if(run.frontiers, [&](const Frontier& other) {
    return &other != &here && std::ranges::binary_search(other.waiting, stand.rank);
  });
  return found == run.frontiers.end() ? nullptr : &*found;
}

/// All ranks with a ring wait: for those without one.
void add_unknown(const Frontier& frontier, const RanksComparedEvent& run,
                 std::vector<Suspect>& suspects) {
  for (std::int64_t rank = 0; rank < run.world_size; ++rank) {
    if (std::ranges::binary_search(run.with_ring, rank)) continue;
    const bool is_gone = failed(ending_of(rank, run.endings), frontier);
    suspects.push_back({{.rank = rank}, is_gone ? Absence::kGone : Absence::kUnknown});
  }
}

/// Ranks that did not come; those that wait in another group themselves only where `all` count.
std::vector<Suspect> suspects_of(const Frontier& frontier, const RanksComparedEvent& run,
                                 bool all) {
  std::vector<Suspect> suspects;
  for (const RankStand& stand : frontier.stands) {
    if (!std::ranges::binary_search(frontier.behind, stand.rank)) continue;
    if (!all && where_waits(stand, frontier, run) != nullptr) continue;
    suspects.push_back({stand, absence_of(stand, run, frontier)});
  }
  if (frontier.behind.empty() && group_size(frontier.group) == run.world_size) {
    add_unknown(frontier, run, suspects);
  }
  return suspects;
}

/// Whether it waited so long that it is no ordinary wait.
bool is_long(const Hang& hang, const RanksComparedEvent& run) {
  const Frontier& frontier = *hang.frontier;
  const auto has_left = [](const Suspect& one) { return one.absence == Absence::kEnded; };
  if (std::ranges::all_of(hang.suspects, has_left)) return true;
  const bool is_first = frontier.seq <= kFirstCalls || frontier.call.record.step <= 1;
  const std::int64_t least =
      run.live || is_first ? run.hang_after_ms : std::min(run.hang_after_ms, kAfterTheFactMs);
  return frontier.waited_ms >= std::max(least, kTypicalWaits * frontier.median_wait_ms);
}

/// Waiting ranks of which all lost the same rank, which failed by itself, tell nothing new.
bool is_told_elsewhere(const Hang& hang) {
  return std::ranges::all_of(
      hang.suspects, [](const Suspect& suspect) { return suspect.absence == Absence::kGone; });
}

Finding hang_finding(const Hang& hang, const RanksComparedEvent& run) {
  const Frontier& frontier = *hang.frontier;
  const Suspect& first = hang.suspects.front();
  Finding finding;
  finding.severity = Severity::kError;
  const bool is_slow = first.absence == Absence::kSlow || first.absence == Absence::kUnknown;
  const bool may_be_slow =
      first.absence == Absence::kAlive && frontier.waited_ms < run.hang_after_ms;
  if (hang.elsewhere == nullptr && (is_slow || may_be_slow)) {
    finding.severity = Severity::kWarning;
    finding.confidence = Confidence::kMedium;
    finding.evidence_status = EvidenceStatus::kSupported;
  }
  finding.rank = first.stand.rank;
  for (const Suspect& suspect : hang.suspects) finding.ranks.push_back(suspect.stand.rank);
  finding.step = frontier.call.record.step;
  finding.phase = frontier.call.record.phase;
  set_place(finding, frontier.call);
  finding.op = call_word(frontier.call.record.kind);
  finding.what = hang_words(hang, run.live);
  finding.why = hang_reason(hang);
  finding.fixes = hang_fixes(hang);
  finding.facts = hang_facts(hang);
  if (!frontier.call.site.frames.empty()) finding.sites.push_back(frontier.call.site);
  return finding;
}

/// Ranks that wait for each other: all of them are to blame.
bool is_circle(const RanksComparedEvent& run) {
  return std::ranges::all_of(run.frontiers, [&run](const Frontier& frontier) {
    return suspects_of(frontier, run, false).empty();
  });
}

/// collective-hang; docs/checks/collective-hang.md
class CollectiveHang final : public Check {
 public:
  void on_ranks_compared(const RanksComparedEvent& run, Findings& findings) override {
    const bool all = is_circle(run);
    for (const Frontier& frontier : run.frontiers) {
      Hang hang{&frontier, still_waiting(frontier, run), suspects_of(frontier, run, all)};
      if (all && !hang.suspects.empty()) {
        hang.elsewhere = where_waits(hang.suspects.front().stand, frontier, run);
      }
      if (hang.waiting.empty() || hang.suspects.empty() || is_told_elsewhere(hang)) continue;
      if (is_long(hang, run)) findings.push_back(hang_finding(hang, run));
    }
  }
};
}  // namespace

std::unique_ptr<Check> make_collective_hang() { return std::make_unique<CollectiveHang>(); }

}  // namespace ddpscope
