#pragma once

#include <algorithm>
#include <set>
#include <vector>

#include "checks/run_state.h"

namespace ddpscope {

/// The optimizers that step with the gradient of this parameter. Where none holds it, the only one
/// of the program, if that holds no parameter of a model: as copies in float32 of all of them.
inline std::vector<OptimizerId> steppers_of(const TensorState& tensor, const RunState& state) {
  if (!tensor.owners.empty() || state.optimizers().size() != 1) return tensor.owners;
  const auto& [id, optimizer] = *state.optimizers().begin();
  for (const auto& group : optimizer.groups) {
    const TensorState* held = group.empty() ? nullptr : state.tensor(group.front().tensor);
    if (held != nullptr && !held->registrations.empty()) return {};
  }
  return {id};
}

/// Optimizers that call a closure: what it clears and computes again is part of one step.
class ClosureSteps {
 public:
  void on_optimizer_step(const OptimizerStepEvent& event) {
    if (event.with_closure) known_.insert(event.optimizer);
  }
  bool has(OptimizerId id, const RunState& state) const {
    if (known_.contains(id)) return true;
    const auto optimizer = state.optimizers().find(id);  // LBFGS takes no step without one
    return optimizer != state.optimizers().end() && optimizer->second.type == "LBFGS";
  }
  bool has_owner_of(TensorId id, const RunState& state) const {
    const TensorState* tensor = state.tensor(id);
    return tensor != nullptr && std::ranges::any_of(tensor->owners, [&](OptimizerId owner) {
             return has(owner, state);
           });
  }

 private:
  std::set<OptimizerId> known_;
};

}  // namespace ddpscope
