#include "checks/ending_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "model/fact_keys.h"
#include "model/rank_words.h"

namespace ddpscope {
namespace {
// What a rank says when its peer is gone: Gloo, its sockets, the store, NCCL.
constexpr std::array<std::string_view, 11> kPeerIsGone = {
    "closed by peer", "reset by peer",  "Connection refused", "Connection closed",
    "Broken pipe",    "Timed out",      "timed out",          "timeout",
    "Socket Timeout", "remote process", "failed to recv"};

std::string first_line(const std::string& text) {
  constexpr std::size_t kLongest = 300;
  const std::string line = text.substr(0, text.find('\n'));
  return line.size() <= kLongest ? line : line.substr(0, kLongest) + "...";
}

std::string exception_words(const RankEnding& ending) {
  if (ending.exception_type.empty()) return first_line(ending.exception);
  return fmt::format("{} \"{}\"", ending.exception_type, first_line(ending.exception));
}

std::string reason_words(const RankEnding& ending) {
  switch (ending.kind) {
    case EndKind::kClean:
      return "exit code 0";
    case EndKind::kException:
      return exception_words(ending);
    case EndKind::kSignal:
      return ending.signal;
    case EndKind::kExit:
      return fmt::format("exit code {}", ending.code);
    case EndKind::kKilled:
      break;
  }
  const std::string last = fmt::format("its last record is of step {}", ending.step);
  if (ending.signal.empty()) return "it ended without a note (SIGKILL or _exit); " + last;
  return fmt::format("{}; {}", ending.signal, last);
}

std::string_view kind_word(EndKind kind) {
  constexpr std::array<std::string_view, 5> kWords = {"clean", "exception", "signal", "exit",
                                                      "killed"};
  return kWords[static_cast<std::size_t>(kind)];
}

std::string end_words(const RankEnding& ending, bool several) {
  const std::string were = several ? "were" : "was";
  if (ending.stopped) return were + " ended by the launcher";
  switch (ending.kind) {
    case EndKind::kException:
      return "ended on an exception";
    case EndKind::kExit:
      return fmt::format("left with exit code {}", ending.code);
    case EndKind::kSignal:
      return fmt::format("{} ended by {}", were, ending.signal);
    default:
      return were + " killed";
  }
}

std::int64_t delay_ms(const RankEnding& first, const RankEnding& later) {
  return std::max<std::int64_t>(0, (*later.unix_ns - *first.unix_ns) / 1'000'000);
}

std::string delay_words(std::int64_t ms) {
  if (ms < 1000) return fmt::format(" {} ms later", ms);
  return fmt::format(" {:.1f} s later", static_cast<double>(ms) / 1000.0);
}

/// Ranks that ended in the same way.
struct Group {
  Endings members;
  std::optional<std::int64_t> delay;  ///< of the first of them, in ms
};

void add(Group& group, const RankEnding& first, const RankEnding& ending) {
  group.members.push_back(&ending);
  if (!first.unix_ns || !ending.unix_ns) return;
  const std::int64_t delay = delay_ms(first, ending);
  group.delay = std::min(group.delay.value_or(delay), delay);
}
}  // namespace

std::string_view phase_word(Phase phase) {
  constexpr std::array<std::string_view, 6> kWords = {"init",   "forward",   "backward",
                                                      "reduce", "optimizer", "exit"};
  return kWords[static_cast<std::size_t>(phase)];
}

bool was_told_to_stop(const RankEnding& ending) {
  return ending.kind == EndKind::kSignal && asks_to_end(ending.signal);
}

bool is_reaction(const RankEnding& ending) {
  if (ending.kind == EndKind::kExit || was_told_to_stop(ending)) return true;
  if (ending.kind == EndKind::kSignal) return ending.signal == "SIGPIPE";
  return ending.kind == EndKind::kException &&
         std::ranges::any_of(kPeerIsGone, [&ending](std::string_view words) {
           return ending.exception.find(words) != std::string::npos;
         });
}

const RankEnding* ending_of(std::int64_t rank, const RanksEndedEvent& run) {
  const auto found = std::ranges::find(run.ranks, rank, &RankEnding::rank);
  return found == run.ranks.end() ? nullptr : &*found;
}

std::vector<std::int64_t> ranks_in(const Endings& endings) {
  std::vector<std::int64_t> ranks;
  for (const RankEnding* ending : endings) ranks.push_back(ending->rank);
  std::ranges::sort(ranks);
  return ranks;
}

Finding finding_at(const RankEnding& ending) {
  Finding finding;
  finding.causal_role = CausalRole::kInitiating;
  finding.rank = ending.rank;
  finding.step = ending.step;
  finding.phase = ending.phase.value_or(Phase::kExit);
  finding.model = ending.model;
  finding.module_path = ending.module_path;
  finding.op = ending.op;
  return finding;
}

std::vector<Fact> ending_facts(const RankEnding& first, const Endings& others) {
  std::vector<Fact> facts = {{fact::kFirstRank, first.rank},
                             {fact::kReasonKind, std::string(kind_word(first.kind))}};
  if (first.kind == EndKind::kException)
    facts.push_back({fact::kException, exception_words(first)});
  if (!first.signal.empty()) facts.push_back({fact::kSignal, first.signal});
  if (first.phase) facts.push_back({fact::kPhase, std::string(phase_word(*first.phase))});
  if (!first.host.empty()) facts.push_back({fact::kHost, first.host});
  if (!first.last_call.empty()) facts.push_back({fact::kLastCall, first.last_call});
  Group later;
  for (const RankEnding* ending : others) {
    if (ending != &first) add(later, first, *ending);
  }
  if (later.delay) facts.push_back({fact::kDelayMs, *later.delay});
  return facts;
}

std::string failure_words(const RankEnding& first) {
  const std::string phase =
      first.phase ? fmt::format(", in {}", phase_word(*first.phase)) : std::string();
  return fmt::format("rank {} failed first{}: {}", first.rank, phase, reason_words(first));
}

std::string cascade_words(const RankEnding& first, const Endings& others) {
  constexpr std::size_t kShown = 3;
  std::vector<Group> groups;
  for (const RankEnding* ending : others) {
    const auto same = std::ranges::find_if(groups, [ending](const Group& group) {
      return end_words(*group.members.front(), true) == end_words(*ending, true);
    });
    add(same != groups.end() ? *same : groups.emplace_back(), first, *ending);
  }
  std::ranges::stable_sort(groups, {}, [](const Group& group) {
    return group.delay.value_or(std::numeric_limits<std::int64_t>::max());
  });
  std::string words;
  for (std::size_t i = 0; i < groups.size() && i < kShown; ++i) {
    const Group& group = groups[i];
    words += fmt::format("; {} {}{}", rank_words(ranks_in(group.members)),
                         end_words(*group.members.front(), group.members.size() > 1),
                         group.delay ? delay_words(*group.delay) : "");
  }
  if (groups.size() > kShown) words += "; others later";
  return words;
}

std::string told_words(const Endings& ended) {
  const auto [first, last] =
      std::ranges::minmax(ended, {}, [](const RankEnding* ending) { return *ending->unix_ns; });
  std::string signals = first->signal;
  for (const RankEnding* ending : ended) {
    if (signals.find(ending->signal) == std::string::npos) signals += " or " + ending->signal;
  }
  return fmt::format("{} were ended by {} within {} ms", rank_words(ranks_in(ended)), signals,
                     delay_ms(*first, *last));
}

std::string silent_words(const Endings& ended) {
  return fmt::format("{} ended without a note (SIGKILL or _exit); which was first is not known",
                     rank_words(ranks_in(ended)));
}

std::string advice_for(const RankEnding& first) {
  if (first.kind == EndKind::kException) {
    return fmt::format("catch or repair what rank {} threw; the other ranks need no look",
                       first.rank);
  }
  return fmt::format("look at rank {} and its error output; the other ranks need no look",
                     first.rank);
}

Fix killed_fix() {
  return {
      "ask the kernel's log (dmesg) and the scheduler: either kills a process that takes more "
      "memory than there is",
      Applicability::kLikely};
}

}  // namespace ddpscope
