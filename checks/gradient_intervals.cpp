#include "checks/gradient_intervals.h"

#include <algorithm>

namespace ddpscope {
namespace {
constexpr std::int64_t kIntervalCycles = 3;
}  // namespace

void GradientIntervals::add(OptimizerId owner, const GradientEvent& event) {
  Member& member = members_[owner][event.tensor];
  if (event.before != GradientBefore::kKept) {
    member.cleared = true;
    member.since_clear = member.steps = 0;
  }
  ++member.accumulations;
  ++member.since_clear;
}

void GradientIntervals::clear(OptimizerId optimizer) {
  for (auto& [id, member] : members_[optimizer]) {
    member.cleared = true;
    member.since_clear = member.steps = 0;
  }
}

// A cycle may have several steps of an optimizer, as of a critic: one that was not cleared is
// enough.
void GradientIntervals::end(Member& member, std::int64_t cycle) {
  if (member.cycle != cycle && member.stale_cycle != member.cycle) member.stale_cycles = 0;
  member.cycle = cycle;
  if (member.cleared) {
    member.clear_cycle = cycle;
  } else if (member.stale_cycle != cycle) {
    member.stale_cycle = cycle;
    ++member.stale_cycles;
  }
  ++member.steps;
  member.was_cleared = member.cleared;
  member.cleared = false;
  member.accumulations = 0;
}

GradientIntervals::Closed GradientIntervals::close(OptimizerId optimizer, std::int64_t cycle) {
  Closed closed{.all = true};
  for (auto& [id, member] : members_[optimizer]) {
    if (member.accumulations == 0) continue;
    end(member, cycle);
    if (!member.was_cleared && member.stale_cycles >= kIntervalCycles) {
      const bool now_and_then = member.clear_cycle > 0 && member.clear_cycle + 1 >= cycle;
      Stale& stale = now_and_then ? closed.now_and_then : closed.never;
      stale.parameters.push_back(id);
      stale.steps = std::max(stale.steps, member.steps);
      stale.accumulations = std::max(stale.accumulations, member.since_clear);
    } else {
      closed.all = false;
    }
    if (member.was_cleared) closed.longest = std::max(closed.longest, member.since_clear);
  }
  return closed;
}

std::vector<TensorId> GradientIntervals::cleared() const {
  std::vector<TensorId> cleared;
  for (const auto& [optimizer, members] : members_) {
    for (const auto& [id, member] : members) {
      if (member.was_cleared) cleared.push_back(id);
    }
  }
  return cleared;
}

}  // namespace ddpscope
