#include "checks/cleared_gradients.h"

#include "checks/missing_cause.h"

namespace ddpscope {
namespace {
/// Empty where the step had a gradient. An optimizer of the program's own may clear them itself.
std::vector<const TensorState*> cleared_before(const OptimizerStepEvent& step,
                                               const RunState& state) {
  std::vector<const TensorState*> cleared;
  const OptimizerState& optimizer = state.optimizers().at(step.optimizer);
  if (!optimizer.of_libtorch) return {};
  for (const auto& group : optimizer.groups) {
    for (const OptimizerMember& member : group) {
      if (member.grad_defined) return {};
      const TensorState* tensor = state.tensor(member.tensor);
      if (tensor == nullptr || tensor->registrations.empty()) continue;
      if (tensor->gradient_cycle == step.at.cycle) cleared.push_back(tensor);
    }
  }
  return cleared;
}
}  // namespace

std::vector<const TensorState*> ClearedGradients::on(const OptimizerStepEvent& event,
                                                     const RunState& state) {
  std::vector<const TensorState*> cleared;
  if (!event.threw && !event.with_closure) cleared = cleared_before(event, state);
  if (cleared.empty()) {
    cycles_.erase(event.optimizer);
    return {};
  }
  if (++cycles_[event.optimizer] != kMissingCycles) return {};
  return cleared;
}

}  // namespace ddpscope
