#include "checks/missing_cause.h"

#include <algorithm>

#include "checks/subtree.h"

namespace ddpscope {

bool expects_gradient(const RunState& state, const TensorState& tensor) {
  if (tensor.registrations.empty() || !state.eligible(tensor)) return false;
  // Before any optimizer has stepped, none of them is one that only the other phase uses.
  const bool some_stepped = std::ranges::any_of(
      state.optimizers(), [](const auto& entry) { return entry.second.steps > 0; });
  if (some_stepped && state.waits_for_first_step(tensor)) return false;
  const Registration& at = tensor.registrations.front();
  if (state.declared(at.model, tensor_path(tensor), "external")) return false;
  for (const OptimizerId owner : tensor.owners) {
    for (const auto& group : state.optimizers().at(owner).groups) {
      const auto member = std::ranges::find(group, tensor.info.id, &OptimizerMember::tensor);
      if (member != group.end() && member->grad_defined) return false;
    }
  }
  return true;
}

bool steps_for_nothing(const RunState& state, const TensorState& tensor, std::int64_t cycle) {
  return std::ranges::any_of(tensor.owners, [&](OptimizerId owner) {
    const OptimizerState& optimizer = state.optimizers().at(owner);
    if (optimizer.last_step_cycle != cycle) return false;
    const auto has_gradient = [&](const OptimizerMember& member) {
      const TensorState* other = state.tensor(member.tensor);
      return member.grad_defined || (other != nullptr && other->gradient_cycle == cycle);
    };
    return std::ranges::none_of(optimizer.groups, [&](const auto& group) {
      return std::ranges::any_of(group, has_gradient);
    });
  });
}

MissingCause missing_cause_of(const RunState& state, const TensorState& tensor,
                              std::int64_t cycles) {
  const std::int64_t begin = std::max<std::int64_t>(state.now().cycle - cycles, 0);
  const TensorUse& use = tensor.use;
  if (tensor.undefined_cycle > begin) return {.name = "function_returned_nothing"};
  if (state.last_surveyed_cycle() <= begin) return {};
  if (use.last_cycle <= begin) return {.name = "not_used"};
  const std::string first_op = use.ops.empty() ? "" : use.ops.front();
  if (use.last_grad_mode_cycle <= begin) return {.name = "grad_mode_off", .op = first_op};
  const auto& end = use.end_before_step.has_value() ? use.end_before_step : use.end;
  if (!end.has_value() && tensor.reached_step < 0) return {.name = "no_backward"};
  if (!end.has_value()) return {.was_reached = true};
  if (end->read_without_grad) return {.name = "grad_mode_off", .op = first_op};
  if (end->cut) {
    return {.name = "cut",
            .op = end->op,
            .shape = end->shape,
            .cut_op = end->cut_op,
            .cut_stack = end->cut_stack};
  }
  if (!end->differentiable) return {.name = "not_used"};
  return {.name = end->alive ? "output_not_in_loss" : "result_dropped",
          .op = end->op,
          .shape = end->shape};
}

}  // namespace ddpscope
