#include "checks/hang_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "checks/call_text.h"
#include "checks/ending_text.h"
#include "model/fact_keys.h"
#include "model/rank_words.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxListed = 1024;

std::string place_words(const RankStand& stand, Absence absence) {
  if (absence == Absence::kEnded) {
    return fmt::format("left its loop after step {}", std::max<std::int64_t>(stand.step - 1, 0));
  }
  const std::string place =
      stand.module.empty() ? std::string(phase_word(stand.phase)) : stand.module;
  return fmt::format("{} in {} of step {} ({})", absence == Absence::kAlive ? "was" : "is", place,
                     stand.step, absence_word(absence));
}

/// Ranks that say the same are told together.
std::string suspect_words(const std::vector<Suspect>& suspects) {
  constexpr std::size_t kShown = 3;
  std::map<std::string, RankList> ranks_of;
  for (const Suspect& suspect : suspects) {
    const RankStand& stand = suspect.stand;
    if (suspect.absence == Absence::kUnknown) {
      ranks_of["left no records"].push_back(stand.rank);
      continue;
    }
    const std::string issued =
        stand.last_seq == 0 ? "issued none" : fmt::format("last issued {}", stand.last_seq);
    ranks_of[issued + " and " + place_words(stand, suspect.absence)].push_back(stand.rank);
  }
  std::string words;
  std::size_t shown = 0;
  for (const auto& [text, ranks] : ranks_of) {
    if (shown++ == kShown) return words + "; others elsewhere";
    words += fmt::format("; {} {}", rank_words(ranks), text);
  }
  return words;
}

std::vector<FactScalar> as_list(const RankList& ranks) { return {ranks.begin(), ranks.end()}; }
}  // namespace

std::string_view absence_word(Absence absence) {
  constexpr std::array<std::string_view, 7> kWords = {"slow", "stuck", "no heartbeat", "ended",
                                                      "gone", "alive", "no records"};
  return kWords[static_cast<std::size_t>(absence)];
}

std::string hang_words(const Hang& hang, bool live) {
  const Frontier& frontier = *hang.frontier;
  const char* verb = !live ? "waited" : hang.waiting.size() == 1 ? "waits" : "wait";
  const std::string time =
      frontier.waited_ms > 0 ? " " + duration_words(frontier.waited_ms) : std::string();
  return fmt::format("{} {}{} in {}{}", rank_words(hang.waiting), verb, time,
                     numbered_call(frontier.call), suspect_words(hang.suspects));
}

std::string hang_reason(const Hang& hang) {
  const Suspect& first = hang.suspects.front();
  if (hang.elsewhere != nullptr) {
    return fmt::format(
        "{} waits in {} of another group meanwhile, which others have not issued: "
        "the ranks issue the calls of these groups in different orders",
        rank_words({first.stand.rank}), numbered_call(hang.elsewhere->call));
  }
  switch (first.absence) {
    case Absence::kEnded:
      return "the rank had fewer batches or left its loop early; the others wait for a call that "
             "it never issues";
    case Absence::kSlow:
      return "the rank does something else for long; the others wait for it";
    case Absence::kSilent:
      return "the process is stopped, or its machine is; the others wait for it";
    case Absence::kUnknown:
      return "whether the rank issued the call is not known: it trains without ddpscope, writes "
             "elsewhere, or ended early";
    default:
      return "the rank took a branch without this call, or issued fewer calls before it";
  }
}

std::vector<Fix> hang_fixes(const Hang& hang) {
  using enum Applicability;
  if (hang.elsewhere != nullptr) {
    return {{"issue the calls of all groups in one order on every rank", kLikely}};
  }
  return {{"issue the call on every rank, or evaluate and save after the step", kLikely},
          {"drop or repeat the tail so that all ranks have as many batches", kLikely},
          {"raise the group's timeout if the rank is only slow", kNeedsDecision}};
}

std::vector<Fact> hang_facts(const Hang& hang) {
  const Frontier& frontier = *hang.frontier;
  RankList suspects;
  for (const Suspect& suspect : hang.suspects) suspects.push_back(suspect.stand.rank);
  std::vector<FactScalar> last_seq;
  std::vector<FactScalar> phases;
  for (const RankStand& stand : frontier.stands) {
    if (last_seq.size() == kMaxListed) break;
    last_seq.emplace_back(static_cast<std::int64_t>(stand.last_seq));
    phases.emplace_back(std::string(phase_word(stand.phase)));
  }
  return {{fact::kGroup, fmt::format("{:016x}", frontier.group)},
          {fact::kSeq, static_cast<std::int64_t>(frontier.seq)},
          {fact::kWaitingRanks, as_list(hang.waiting)},
          {fact::kSuspectRanks, as_list(suspects)},
          {fact::kState, std::string(absence_word(hang.suspects.front().absence))},
          {fact::kLastSeqPerRank, std::move(last_seq)},
          {fact::kPhasePerRank, std::move(phases)},
          {fact::kWaitedMs, frontier.waited_ms},
          {fact::kMedianMs, frontier.median_wait_ms}};
}

void tell_as_wait(Finding& hang) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kPast = {
      {{" waits ", " waited "}, {" wait ", " waited "}, {" is in ", " was in "}}};
  for (const auto& [present, past] : kPast) {
    const std::size_t at = hang.what.find(present);
    if (at != std::string::npos) hang.what.replace(at, present.size(), past);
  }
  hang.severity = std::min(hang.severity, Severity::kWarning);
  hang.what += "; it came later, and all ranks ended cleanly";
  hang.why = "the rank did something else for long; the others waited for it";
  if (!hang.fixes.empty()) hang.fixes = {hang.fixes.back()};  // the timeout of the group
}

}  // namespace ddpscope
