#pragma once

#include <string>
#include <vector>

#include "model/rank_compare_event.h"

namespace ddpscope {

/// What is known of a rank that did not come.
enum class Absence : std::uint8_t {
  kSlow,     ///< it moves
  kStuck,    ///< it lives and does not move
  kSilent,   ///< its heartbeat stopped
  kEnded,    ///< it left its loop
  kGone,     ///< it failed
  kAlive,    ///< after the fact: it lived
  kUnknown,  ///< it left no ring
};

std::string_view absence_word(Absence absence);

struct Suspect {
  RankStand stand;  ///< of a rank without a ring: its number
  Absence absence = Absence::kAlive;
};

/// A hang that was decided.
struct Hang {
  const Frontier* frontier = nullptr;
  RankList waiting;
  std::vector<Suspect> suspects;  ///< by rank
  /// Where these wait for the others in turn, if all ranks wait for each other.
  const Frontier* elsewhere = nullptr;
};

/// `ranks 0-6 wait 30 s in all_reduce 482 of fc.weight.grad; rank 7 last issued 481 and is in
/// evaluate (stuck)`
std::string hang_words(const Hang& hang, bool live);
std::string hang_reason(const Hang& hang);
std::vector<Fix> hang_fixes(const Hang& hang);
std::vector<Fact> hang_facts(const Hang& hang);
/// Of a hang that was told while the ranks ran, all of which ended cleanly: one was only slow.
void tell_as_wait(Finding& hang);

}  // namespace ddpscope
