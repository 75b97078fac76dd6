#include <algorithm>
#include <memory>

#include "checks/call_text.h"
#include "checks/check.h"
#include "checks/ending_text.h"
#include "checks/first_ending.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
/// A rank that was told to stop when the others had made as many steps and were done.
bool after_last_step(const RankEnding& ending, const RanksEndedEvent& run) {
  if (!was_told_to_stop(ending)) return false;
  if (ending.phase == Phase::kExit) return true;
  return std::ranges::any_of(run.ranks, [&ending](const RankEnding& other) {
    return other.kind == EndKind::kClean && other.step > 0 && ending.step > other.step;
  });
}

bool all_were_told_at_once(const Endings& failed) {
  if (failed.size() < 2) return false;
  const auto told = [](const RankEnding* e) { return was_told_to_stop(*e) && e->unix_ns; };
  if (!std::ranges::all_of(failed, told)) return false;
  const auto [first, last] =
      std::ranges::minmax(failed, {}, [](const RankEnding* ending) { return *ending->unix_ns; });
  return *last->unix_ns - *first->unix_ns <= kAtOnceNs;
}

Finding failure(const RankEnding& first, const Endings& others) {
  Finding finding = finding_at(first);
  finding.severity = Severity::kError;
  finding.what = failure_words(first);
  if (!first.last_call.empty()) finding.what += "; its last call was " + first.last_call;
  finding.what += cascade_words(first, others);
  finding.why = "what the other ranks and the launcher report later follows from it";
  finding.fixes = {{advice_for(first), Applicability::kSafe}};
  if (first.kind == EndKind::kKilled) finding.fixes.push_back(killed_fix());
  if (first.kind == EndKind::kKilled && !first.noticed) {
    finding.confidence = Confidence::kMedium;
    finding.evidence_status = EvidenceStatus::kSupported;
  }
  finding.facts = ending_facts(first, others);
  return finding;
}

Finding told_to_stop(const Endings& failed) {
  const RankEnding& first = *earliest(failed);
  Finding finding = finding_at(first);
  finding.severity = Severity::kNote;
  finding.what = told_words(failed);
  finding.why = "no rank failed: the launcher, the session or the scheduler ended all of them";
  finding.fixes = {{"keep the session alive with a terminal multiplexer or the scheduler",
                    Applicability::kLikely}};
  finding.facts = ending_facts(first, failed);
  finding.facts.push_back({fact::kCause, std::string("launcher_or_session")});
  finding.ranks = ranks_in(failed);
  return finding;
}

Finding all_silent(const Endings& failed) {
  Finding finding = finding_at(*failed.front());
  finding.severity = Severity::kError;
  finding.confidence = Confidence::kLow;
  finding.evidence_status = EvidenceStatus::kUndecided;
  finding.what = silent_words(failed);
  finding.why = "SIGKILL and _exit leave no note, and no launcher told when they ended";
  finding.fixes = {killed_fix(), {"start the ranks with ddpscope run", Applicability::kSafe}};
  finding.facts = {{fact::kReasonKind, std::string("killed")}};
  finding.ranks = ranks_in(failed);
  return finding;
}

/// Killed, or left by _exit().
bool left_no_note(const RankEnding& ending) {
  return ending.kind != EndKind::kClean && !ending.phase.has_value();
}

/// What the ring of a rank knows that a process without a last word could not write.
RanksEndedEvent with_stands(const RanksComparedEvent& compared) {
  RanksEndedEvent run = compared.endings;
  for (RankEnding& ending : run.ranks) {
    const auto stand = std::ranges::find(compared.stands, ending.rank, &RankStand::rank);
    if (stand == compared.stands.end()) continue;
    if (stand->last_seq > 0) ending.last_call = last_call_words(*stand);
    ending.last_call_threw = stand->last.record.state == CallState::kFailed;
    if (!left_no_note(ending) || stand->beat_unix_ns == 0) continue;
    // It wrote its last word there, and could not elsewhere.
    if (stand->ended && !ending.noticed) ending.kind = EndKind::kClean;
    ending.step = std::max(ending.step, stand->step);
    const CallRecord& last = stand->last.record;  // a heart beats once a second
    const bool beat_last = last.unix_ns <= stand->beat_unix_ns;
    ending.phase = beat_last ? stand->phase : last.phase;
    // The step of that call is over: of the next one it noted nothing.
    if (!beat_last && last.step < stand->step) ending.phase = std::nullopt;
    if (ending.phase.has_value()) ending.module_path = stand->module;
  }
  return run;
}

/// rank-first-failure; docs/checks/rank-first-failure.md
class RankFirstFailure final : public Check {
 public:
  void on_ranks_compared(const RanksComparedEvent& compared, Findings& findings) override {
    if (compared.live || compared.world_size < 2) return;
    const RanksEndedEvent run = with_stands(compared);
    Endings failed;
    for (const RankEnding& ending : run.ranks) {
      if (ending.kind != EndKind::kClean && !after_last_step(ending, run)) {
        failed.push_back(&ending);
      }
    }
    if (failed.empty()) return;
    if (all_were_told_at_once(failed)) {
      findings.push_back(told_to_stop(failed));
    } else if (const RankEnding* first = first_failure(failed)) {
      std::erase(failed, first);
      findings.push_back(failure(*first, failed));
    } else {
      findings.push_back(all_silent(failed));
    }
  }
};
}  // namespace

std::unique_ptr<Check> make_rank_first_failure() { return std::make_unique<RankFirstFailure>(); }

}  // namespace ddpscope
