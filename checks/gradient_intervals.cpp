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
    member.since_clear = 0;
  }
  ++member.accumulations;
  ++member.since_clear;
}

void GradientIntervals::clear(OptimizerId optimizer) {
  for (auto& [id, member] : members_[optimizer]) {
    member.cleared = true;
    member.since_clear = 0;
  }
}

void GradientIntervals::end(Member& member, std::int64_t cycle) {
  if (member.cleared) {
    member.stale_cycles = 0;
  } else if (member.stale_cycle != cycle) {
    member.stale_cycle = cycle;
    ++member.stale_cycles;
  }
  member.was_cleared = member.cleared;
  member.cleared = false;
  member.accumulations = 0;
}

GradientIntervals::Closed GradientIntervals::close(OptimizerId optimizer, std::int64_t cycle) {
  Closed closed{.all = true};
  for (auto& [id, member] : members_[optimizer]) {
    if (member.accumulations == 0) continue;
    end(member, cycle);
    if (member.stale_cycles >= kIntervalCycles) {
      closed.stale.push_back(id);
      closed.accumulations = std::max(closed.accumulations, member.since_clear);
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
