#include "checks/gradient_intervals.h"

#include <algorithm>
#include <utility>

namespace ddpscope {
namespace {
constexpr std::int64_t kIntervalCycles = 3;
constexpr std::int64_t kClearedCycles = 2;
constexpr int kGapsToLearn = 3;
}  // namespace

void GradientIntervals::clear(Member& member) {
  member.cleared = true;
  member.since_clear = member.steps = 0;
}

void GradientIntervals::add(OptimizerId owner, const GradientEvent& event) {
  Members& members = optimizers_[owner];
  Member& member = members.by_id[event.tensor];
  const bool was_hidden =
      std::exchange(member.rested, false) && event.before == GradientBefore::kReset;
  if (was_hidden || event.before == GradientBefore::kZero) {
    member.untold = true;
  } else if (event.before != GradientBefore::kKept) {
    clear(member);
    const bool is_undefined = event.before == GradientBefore::kUndefined;
    member.set_to_none |= is_undefined && member.had_gradient && members.stepped;
    members.zeroed_first |= is_undefined && member.had_gradient && !members.stepped;
    member.is_first |=
        is_undefined && !member.had_gradient && !members.zeroed && !members.zeroed_first;
  }
  member.had_gradient = true;
  ++member.accumulations;
  ++member.since_clear;
}

void GradientIntervals::rested() {
  for (auto& [optimizer, members] : optimizers_) {
    for (auto& [id, member] : members.by_id) member.rested = true;
  }
}

void GradientIntervals::clear(OptimizerId optimizer) {
  Members& members = optimizers_[optimizer];
  (members.stepped ? members.zeroed : members.zeroed_first) = true;
  for (auto& [id, member] : members.by_id) clear(member);
}

// A cycle may have several steps of an optimizer, as of a critic: one that was not cleared is
// enough. Where one clearing serves several cycles, the first of these is in order.
void GradientIntervals::end(Member& member, std::int64_t cycle) {
  const bool all_cleared = member.clear_cycle == member.cycle &&
                           member.stale_cycle != member.cycle &&
                           member.untold_cycle != member.cycle;
  if (member.cycle != cycle) {
    member.cleared_cycles = all_cleared ? member.cleared_cycles + 1 : 0;
    if (member.cleared_cycles >= kClearedCycles) member.stale_cycles = member.untold_cycles = 0;
  }
  member.cycle = cycle;
  if (member.cleared) {
    if (!member.is_first) member.clear_cycle = cycle;
    member.cleared_each |= member.was_cleared;
  } else if (member.untold) {
    if (std::exchange(member.untold_cycle, cycle) != cycle) ++member.untold_cycles;
  } else if (member.stale_cycle != cycle) {
    member.stale_cycle = cycle;
    ++member.stale_cycles;
  }
  ++member.steps;
  member.was_cleared = std::exchange(member.cleared, false);
  member.was_first = std::exchange(member.is_first, false);
  member.was_untold = std::exchange(member.untold, false);
  member.accumulations = 0;
}

/// Cleared before a step of this cycle or the last one, or once in a while, as before a loop within
/// the loop. What was cleared before each step until it no longer was is not, nor what was before
/// the first step alone: that may have been before the loop.
bool GradientIntervals::is_now_and_then(const Members& members, const Member& member,
                                        std::int64_t cycle) {
  if (member.clear_cycle > 0 && member.clear_cycle + 1 >= cycle) return true;
  return (members.zeroed || member.set_to_none) && !member.cleared_each;
}

/// Of those of which it cannot be told, beside others of which all are the same.
void GradientIntervals::add_untold(const std::vector<TensorId>& untold, Closed& closed) {
  const bool is_mixed = !closed.never.parameters.empty() && !closed.now_and_then.parameters.empty();
  if (!closed.all || is_mixed) {
    closed.all = false;
    return;
  }
  Stale& stale = closed.never.parameters.empty() ? closed.now_and_then : closed.never;
  if (stale.parameters.empty()) return;
  stale.parameters.insert(stale.parameters.end(), untold.begin(), untold.end());
}

GradientIntervals::Closed GradientIntervals::close(OptimizerId optimizer, std::int64_t cycle) {
  Closed closed{.all = true};
  Members& members = optimizers_[optimizer];
  members.stepped = true;
  std::vector<TensorId> untold;
  for (auto& [id, member] : members.by_id) {
    if (member.accumulations == 0) continue;
    end(member, cycle);
    if (member.was_cleared) closed.longest = std::max(closed.longest, member.since_clear);
    const bool is_told = !member.was_cleared && !member.was_untold;
    if (is_told && member.stale_cycles >= kIntervalCycles) {
      const bool now_and_then = is_now_and_then(members, member, cycle);
      closed.zeroed_first |= !now_and_then && members.zeroed_first && !member.cleared_each;
      Stale& stale = now_and_then ? closed.now_and_then : closed.never;
      stale.parameters.push_back(id);
      stale.steps = std::max(stale.steps, member.steps);
      stale.accumulations = std::max(stale.accumulations, member.since_clear);
    } else if (!member.was_cleared &&
               member.stale_cycles + member.untold_cycles >= kIntervalCycles) {
      untold.push_back(id);
    } else {
      closed.all = false;
    }
  }
  if (!untold.empty()) add_untold(untold, closed);
  return closed;
}

std::vector<TensorId> GradientIntervals::cleared() const {
  std::vector<TensorId> cleared;
  for (const auto& [optimizer, members] : optimizers_) {
    for (const auto& [id, member] : members.by_id) {
      if (member.was_cleared && !member.was_first) cleared.push_back(id);
    }
  }
  return cleared;
}

std::int64_t AccumulationPeriod::exceeded_by(std::int64_t accumulations) {
  if (accumulations == 0) return 0;
  const bool is_exceeded = agreed_ >= kGapsToLearn && accumulations > value_;
  agreed_ = accumulations == value_ ? agreed_ + 1 : 1;
  const std::int64_t before = std::exchange(value_, accumulations);
  return is_exceeded ? before : 0;
}

}  // namespace ddpscope
