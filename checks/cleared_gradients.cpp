#include "checks/cleared_gradients.h"

#include <algorithm>
#include <utility>

#include "checks/missing_cause.h"

namespace ddpscope {
namespace {
/// Empty where the step had a gradient.
std::vector<const TensorState*> cleared_before(const OptimizerState& optimizer, std::int64_t cycle,
                                               const RunState& state) {
  std::vector<const TensorState*> cleared;
  for (const auto& group : optimizer.groups) {
    for (const OptimizerMember& member : group) {
      if (member.grad_defined) return {};
      const TensorState* tensor = state.tensor(member.tensor);
      if (tensor == nullptr || tensor->registrations.empty()) continue;
      if (tensor->gradient_cycle == cycle) cleared.push_back(tensor);
    }
  }
  return cleared;
}
}  // namespace

ClearedGradients::Cleared ClearedGradients::on(const OptimizerStepEvent& event,
                                               const RunState& state) {
  const OptimizerState& optimizer = state.optimizers().at(event.optimizer);
  // An optimizer of the program's own may clear them itself.
  if (event.threw || event.with_closure || !optimizer.of_libtorch) {
    cycles_.erase(event.optimizer);
    return {};
  }
  std::vector<const TensorState*> cleared = cleared_before(optimizer, event.at.cycle, state);
  if (cleared.empty()) {
    cycles_.erase(event.optimizer);
    return {.foreign = foreign_at(optimizer, state)};
  }
  if (++cycles_[event.optimizer] != kMissingCycles) return {};
  return {.all = std::move(cleared)};
}

std::vector<const TensorState*> ClearedGradients::foreign_at(const OptimizerState& optimizer,
                                                             const RunState& state) {
  std::vector<const TensorState*> told;
  const bool steps_some = std::ranges::any_of(optimizer.groups, [](const auto& group) {
    return std::ranges::any_of(group, &OptimizerMember::grad_defined);
  });
  if (!steps_some) return told;
  for (const auto& group : optimizer.groups) {
    for (const OptimizerMember& member : group) {
      if (member.grad_defined) continue;
      const TensorState* tensor = state.tensor(member.tensor);
      if (tensor == nullptr || tensor->registrations.empty() || tensor->owners.size() > 1) continue;
      Foreign& foreign = foreign_[member.tensor];
      const bool again =
          foreign.step + 1 == optimizer.steps && tensor->gradients > foreign.gradients;
      foreign = {.step = optimizer.steps,
                 .gradients = tensor->gradients,
                 .times = again ? foreign.times + 1 : 0};
      if (foreign.times == kForeignSteps) told.push_back(tensor);
    }
  }
  return told;
}

}  // namespace ddpscope
