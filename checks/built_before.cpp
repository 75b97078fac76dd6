#include "checks/built_before.h"

namespace ddpscope {

bool was_built_before(const RunState& state, const TensorState& tensor, std::int64_t cycles) {
  for (const auto& [id, optimizer] : state.optimizers()) {
    if (optimizer.steps == 0 || !optimizer.members_known) continue;
    const bool stepped = optimizer.last_step_cycle + cycles >= state.now().cycle;
    if (!stepped) continue;  // of an earlier loop
    if (optimizer.creation_seen && tensor.registered_at > optimizer.first_seen) return true;
    for (const auto& group : optimizer.groups) {
      for (const OptimizerMember& member : group) {
        const TensorState* other = state.tensor(member.tensor);
        const bool predecessor = other != nullptr && other->registrations.empty() &&
                                 !other->left_with_root && other->first_seen < tensor.first_seen &&
                                 !other->info.shape.empty() &&
                                 other->info.shape == tensor.info.shape;
        if (predecessor && !tensor.registrations.empty()) return true;
      }
    }
  }
  return false;
}

}  // namespace ddpscope
