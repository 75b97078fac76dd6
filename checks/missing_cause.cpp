#include "checks/missing_cause.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "checks/subtree.h"

namespace ddpscope {
namespace {
/// An operator reads it on a gradient path, as far as is known, and its optimizer stepped.
bool ran_for_step(const RunState& state, const TensorState& tensor, std::int64_t cycle) {
  const std::int64_t surveyed = state.last_surveyed_cycle();
  if (surveyed == 0 || tensor.use.last_grad_mode_cycle < surveyed) return false;
  return std::ranges::any_of(tensor.owners, [&](OptimizerId owner) {
    return state.optimizers().at(owner).last_step_cycle == cycle;
  });
}
}  // namespace

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

bool is_beside_members(const RunState& state, const TensorState& tensor) {
  const ModelState* model = state.model_of(tensor);
  return model != nullptr && std::ranges::any_of(model->tensors, [&](const auto& registered) {
           const TensorState* other = state.tensor(registered.tensor.id);
           return other != nullptr && !other->owners.empty();
         });
}

bool expects_gradient(const RunState& state, const TensorState& tensor) {
  if (tensor.registrations.empty() || !state.eligible(tensor)) return false;
  // Before any optimizer has stepped, none of them is one that only the other phase uses.
  const bool some_stepped = std::ranges::any_of(
      state.optimizers(), [](const auto& entry) { return entry.second.steps > 0; });
  if (some_stepped && state.waits_for_first_step(tensor)) return false;
  const Registration& at = tensor.registrations.front();
  if (state.declared(at.model, tensor_path(tensor), "external")) return false;
  if (tensor.zero_filled_cycle == state.now().cycle) return true;
  for (const OptimizerId owner : tensor.owners) {
    for (const auto& group : state.optimizers().at(owner).groups) {
      const auto member = std::ranges::find(group, tensor.info.id, &OptimizerMember::tensor);
      if (member != group.end() && member->grad_defined) return false;
    }
  }
  return true;
}

bool was_trained(const RunState& state, const TensorState& tensor, std::int64_t cycle) {
  return state.gradient_reached(tensor.registrations.front().model) ||
         steps_for_nothing(state, tensor, cycle) || ran_for_step(state, tensor, cycle);
}

bool is_copy(const RunState& state, const TensorState& tensor, const std::string& cause) {
  if (!tensor.owners.empty() || tensor.gradients > 0) return false;
  return !tensor.written_by.empty() || tensor.is_copied || cause == "grad_mode_off" ||
         (cause == "cut" && is_beside_members(state, tensor));
}

namespace {
/// Nothing but evaluation of the whole model read it, in which grad mode is off for all.
bool is_only_evaluated(const RunState& state, const TensorState& tensor, std::int64_t begin) {
  if (tensor.registrations.empty() || tensor.owners.empty()) return false;
  const TensorState* trained = state.trained_in(tensor.registrations.front().model);
  return trained != nullptr && trained->gradient_cycle > begin &&
         trained->use.reads_without_grad >= tensor.use.reads_without_grad;
}

/// Only backwards that accumulate nothing reached it. Its optimizer stepped without any gradient,
/// or with those alone that the program assigned to others.
bool never_accumulates(const RunState& state, const TensorState& tensor) {
  if (tensor.gradients > 0 || !tensor.written_by.empty()) return false;
  if (steps_for_nothing(state, tensor, state.now().cycle)) return true;
  const auto got_one = [&](const OptimizerMember& member) {
    const TensorState* other = state.tensor(member.tensor);
    return other == nullptr || other->gradients > 0;
  };
  return std::ranges::any_of(tensor.owners, [&](OptimizerId owner) {
    const OptimizerState& optimizer = state.optimizers().at(owner);
    return optimizer.last_step_cycle == state.now().cycle &&
           std::ranges::none_of(optimizer.groups, [&](const auto& group) {
             return std::ranges::any_of(group, got_one);
           });
  });
}

/// As for a move of the model to a device or a type.
bool is_only_copied(const TensorUse& use) {
  return std::ranges::all_of(use.ops, [](const std::string& op) {
    return op == "aten::clone" || op == "aten::copy_" || op == "aten::to" || op == "aten::_to_copy";
  });
}

/// As the layer that torch::nn::TransformerEncoder is given.
bool is_only_cloned(const TensorUse& use) {
  return use.ops == std::vector<std::string>{"aten::clone"};
}
}  // namespace

MissingCause missing_cause_of(const RunState& state, const TensorState& tensor,
                              std::int64_t cycles) {
  const std::int64_t begin = std::max<std::int64_t>(state.now().cycle - cycles, 0);
  const TensorUse& use = tensor.use;
  if (tensor.info.requires_grad && !tensor.info.is_leaf) return {.name = "not_leaf"};
  if (tensor.undefined_cycle > begin) return {.name = "function_returned_nothing"};
  if (state.last_surveyed_cycle() <= begin) return {};
  const bool is_cloned = is_only_cloned(use) && !tensor.owners.empty();
  if (use.last_cycle <= begin) return {.name = "not_used", .is_cloned = is_cloned};
  const std::string first_op = use.ops.empty() ? "" : use.ops.front();
  // As clone(), or a move of the model to a device or a type, reads it once before the first step.
  const bool was_read_once_early = cycles >= kMissingCycles && use.last_cycle == begin + 1 &&
                                   state.last_surveyed_cycle() > begin + 2;
  if (was_read_once_early && (is_cloned || use.last_grad_mode_cycle > begin)) {
    if (is_only_copied(use)) return {.name = "not_used", .is_cloned = is_cloned};
    return {.name = "not_used", .op = first_op, .was_read_early = true};
  }
  if (use.last_grad_mode_cycle <= begin) {
    if (is_only_evaluated(state, tensor, begin)) return {.name = "not_used"};
    return {.name = "grad_mode_off", .op = first_op};
  }
  const auto& end = use.end_before_step.has_value() ? use.end_before_step : use.end;
  if (use.no_backward_cycle > begin) return {.name = "no_backward"};
  if (!end.has_value() && tensor.reached_step < 0) return {.name = "no_backward"};
  if (!end.has_value() && never_accumulates(state, tensor)) return {.name = "not_accumulated"};
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

void MissingTensors::add(const TensorState& tensor, const MissingCause& cause) {
  const auto same = std::ranges::find_if(all_, [&cause](const OfCause& one) {
    return one.cause.is_told_with(cause) && one.cause.op == cause.op &&
           one.cause.is_cloned == cause.is_cloned;
  });
  if (same == all_.end()) {
    all_.push_back({.cause = cause, .tensors = {&tensor}});
    return;
  }
  same->tensors.push_back(&tensor);
  if (same->cause.shape != cause.shape) same->cause.shape.clear();
}

std::vector<MissingTensors::OfCause> MissingTensors::parts_of(const TensorGroup& group,
                                                              const MissingCause& cause) const {
  const std::set<const TensorState*> members(group.tensors.begin(), group.tensors.end());
  std::vector<OfCause> parts;
  for (const OfCause& one : all_) {
    if (!one.cause.is_told_with(cause)) continue;
    OfCause part{.cause = one.cause};
    std::ranges::copy_if(one.tensors, std::back_inserter(part.tensors),
                         [&](const auto* tensor) { return members.contains(tensor); });
    if (!part.tensors.empty()) parts.push_back(std::move(part));
  }
  return parts;
}

std::vector<MissingTensors::Found> MissingTensors::found(const RunState& state) const {
  using Kind = std::pair<std::string, bool>;
  std::map<Kind, OfCause> by_kind;
  for (const OfCause& one : all_) {
    OfCause& kind = by_kind[{one.cause.name, one.cause.was_used_before()}];
    if (kind.tensors.empty()) kind.cause = one.cause;
    auto& tensors = kind.tensors;
    tensors.insert(tensors.end(), one.tensors.begin(), one.tensors.end());
  }
  std::vector<Found> found;
  for (const auto& [name, kind] : by_kind) {
    for (TensorGroup& group : collapse(state, kind.tensors)) {
      std::vector<Found> apart;
      const std::vector<OfCause> parts = parts_of(group, kind.cause);
      for (const OfCause& part : parts) {
        for (TensorGroup& own : collapse(state, part.tensors)) {
          apart.push_back({part.cause, std::move(own)});
        }
      }
      const auto is_whole = [](const Found& one) { return one.group.is_whole; };
      if (group.is_whole && !std::ranges::all_of(apart, is_whole)) {
        // The operator of the whole module within it, or else of most parameters.
        const auto told = std::ranges::max_element(apart, {}, [](const Found& one) {
          return std::tuple(one.group.is_whole, one.group.tensors.size(), one.cause.op);
        });
        told->cause.other_ops = std::ssize(parts) - 1;
        apart = {{told->cause, std::move(group)}};
      }
      std::ranges::move(apart, std::back_inserter(found));
    }
  }
  return found;
}

}  // namespace ddpscope
