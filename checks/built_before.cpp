#include "checks/built_before.h"

#include <algorithm>

namespace ddpscope {

namespace {
bool holds_registered(const OptimizerState& optimizer, const RunState& state) {
  return std::ranges::any_of(optimizer.groups, [&](const auto& group) {
    return std::ranges::any_of(group, [&](const OptimizerMember& member) {
      const TensorState* tensor = state.tensor(member.tensor);
      return tensor != nullptr && !tensor->registrations.empty();
    });
  });
}
}  // namespace

bool was_built_before(const RunState& state, const TensorState& tensor, std::int64_t cycles) {
  for (const auto& [id, optimizer] : state.optimizers()) {
    if (optimizer.steps == 0 || !optimizer.members_known) continue;
    const bool stepped = optimizer.last_step_cycle + cycles >= state.now().cycle;
    if (!stepped) continue;  // of an earlier loop
    if (optimizer.creation_seen && tensor.registered_at > optimizer.first_seen) return true;
    if (!holds_registered(optimizer, state)) continue;  // of a model that died
    for (const auto& group : optimizer.groups) {
      for (const OptimizerMember& member : group) {
        const TensorState* other = state.tensor(member.tensor);
        const bool predecessor = other != nullptr && other->registrations.empty() &&
                                 other->first_seen < tensor.first_seen &&
                                 !other->info.shape.empty() &&
                                 other->info.shape == tensor.info.shape;
        if (predecessor && !tensor.registrations.empty()) return true;
      }
    }
  }
  return false;
}

}  // namespace ddpscope
