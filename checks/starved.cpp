#include "checks/starved.h"

#include <algorithm>
#include <unordered_set>

#include "checks/missing_cause.h"

namespace ddpscope {
namespace {
/// In an optimizer, or written by the loop itself: targets and averaged copies are neither.
bool is_trained(const RunState& state, const TensorState& tensor) {
  if (!expects_gradient(state, tensor)) return false;
  if (!tensor.owners.empty()) return true;
  const bool owners_known = std::ranges::any_of(
      state.optimizers(), [](const auto& entry) { return entry.second.members_known; });
  return !owners_known && tensor.written_by.empty();
}

bool in_train_mode(const RunState& state, const TensorState& tensor) {
  const ModelState* model = state.model_of(tensor);
  return model == nullptr || model->modules.empty() || model->modules.front().training;
}

/// Its own loss had no backward in this cycle or the one before, and that of others leaves it out.
bool awaits_backward(const TensorState& tensor, std::int64_t cycle) {
  const std::int64_t awaited = tensor.use.no_backward_cycle;
  return awaited > 0 && cycle - awaited <= 1;
}

bool still_starves(const GradientCut& cut, TensorId id, const RunState& state) {
  const TensorState* tensor = state.tensor(id);
  const std::int64_t cycle = state.now().cycle;
  if (tensor == nullptr || received_gradient(*tensor, cycle)) return false;
  if (awaits_backward(*tensor, cycle)) return false;
  if (cut.if_idle && !steps_for_nothing(state, *tensor, cycle)) return false;
  if (cut.cause == "grad_mode_off" && !in_train_mode(state, *tensor)) return false;
  return is_trained(state, *tensor);
}
}  // namespace

bool received_gradient(const TensorState& tensor, std::int64_t cycle) {
  return tensor.gradient_cycle == cycle || tensor.undefined_cycle == cycle;
}

bool some_received_gradient(const RunState& state, std::int64_t cycle) {
  return std::ranges::any_of(state.tensors().all(), [&](const auto& entry) {
    return state.eligible(entry.second) && received_gradient(entry.second, cycle);
  });
}

bool had_gradient_lately(const TensorState& tensor, std::int64_t cycle) {
  return tensor.gradients > 0 && tensor.gradient_cycle > cycle - kMissingCycles;
}

std::vector<TensorId> unreached(const RunState& state) {
  std::vector<TensorId> leaves;
  for (const TensorId id : state.trace().used_leaves()) {
    const TensorState* tensor = state.tensor(id);
    if (tensor == nullptr || tensor->reached_step == state.now().step) continue;
    if (state.eligible(*tensor)) leaves.push_back(id);
  }
  return leaves;
}

std::vector<GradientCut> idle_cuts(const BackwardEvent& event, const RunState& state) {
  const std::unordered_set<TensorId> reached(event.graph.leaves.begin(), event.graph.leaves.end());
  std::vector<TensorId> leaves;
  for (const TensorId id : state.trace().used_leaves()) {
    const TensorState* tensor = state.tensor(id);
    if (tensor == nullptr || tensor->owners.empty() || !tensor->written_by.empty()) continue;
    if (received_gradient(*tensor, state.now().cycle) || !state.eligible(*tensor)) continue;
    if (!reached.contains(id)) leaves.push_back(id);
  }
  if (leaves.empty()) return {};
  return find_cuts(state.trace(), event, leaves, /*if_idle=*/true);
}

std::vector<const TensorState*> frozen_members(const RunState& state) {
  std::vector<const TensorState*> frozen;
  for (const auto& [id, tensor] : state.tensors().all()) {
    const bool is_member = !tensor.registrations.empty() && !tensor.owners.empty();
    if (is_member && !tensor.is_buffer && !tensor.info.requires_grad) frozen.push_back(&tensor);
  }
  return frozen;
}

std::vector<const TensorState*> untrained_members(const RunState& state) {
  std::vector<const TensorState*> untrained;
  bool some_trained = false;
  for (const auto& [id, tensor] : state.tensors().all()) {
    if (tensor.registrations.empty() || tensor.owners.empty()) continue;
    some_trained |= tensor.gradients > 0;
    if (tensor.gradients == 0 && state.eligible(tensor)) untrained.push_back(&tensor);
  }
  if (!some_trained) untrained.clear();
  return untrained;
}

std::vector<GradientCut> narrowed(std::vector<GradientCut> cuts, const RunState& state) {
  for (GradientCut& cut : cuts) {
    std::erase_if(cut.starved, [&](TensorId id) { return !still_starves(cut, id, state); });
  }
  std::erase_if(cuts, [](const GradientCut& cut) { return cut.starved.empty(); });
  return merged(cuts);
}

namespace {
bool is_used(const OpTrace& trace, TensorId id) {
  return std::ranges::any_of(trace.consumers_of(id),
                             [&](std::size_t number) { return trace.records()[number].grad_mode; });
}

/// The parameter that an output of this record takes the place of; null: none.
const TensorState* rebound_by(const OpTrace::Record& record, const RunState& state) {
  const OpTrace& trace = state.trace();
  for (const OpTrace::Output& output : record.outputs) {
    if (output.requires_grad || !output.floating || !is_used(trace, output.id)) continue;
    for (const TensorId input : record.inputs) {
      const TensorId id = trace.leaf_behind(input);
      const TensorState* leaf = state.tensor(id);
      if (leaf == nullptr || id == output.id || leaf->gradients == 0) continue;
      if (leaf->info.shape == output.shape && !is_used(trace, id)) return leaf;
    }
  }
  return nullptr;
}
}  // namespace

GradientCut cut_by_rebinding(const RunState& state) {
  GradientCut cut{.cause = "grad_mode_off", .is_rebound = true};
  for (const OpTrace::Record& record : state.trace().records()) {
    const TensorState* leaf = record.grad_mode ? nullptr : rebound_by(record, state);
    if (leaf == nullptr) continue;
    if (std::ranges::find(cut.starved, leaf->info.id) != cut.starved.end()) continue;
    cut.starved.push_back(leaf->info.id);
    cut.op = record.op;
    cut.stack = record.stack;
  }
  return cut;
}

GradientCut cut_by_grad_mode(const RunState& state) {
  GradientCut cut{.cause = "grad_mode_off"};
  for (const auto& [id, tensor] : state.tensors().all()) {
    const bool trained = !tensor.registrations.empty() && !tensor.owners.empty();
    if (trained && state.eligible(tensor)) cut.starved.push_back(id);
  }
  return cut;
}

}  // namespace ddpscope
