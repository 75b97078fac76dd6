#include "checks/twins.h"

#include <algorithm>

#include "checks/subtree.h"

namespace ddpscope {

Twins::Twins(const RunState& state) {
  for (const auto& [id, tensor] : state.tensors().all()) {
    const bool free = !tensor.registrations.empty() && tensor.owners.empty();
    if (free && state.eligible(tensor) && tensor.info.requires_grad) free_.push_back(&tensor);
  }
  std::ranges::sort(free_, {}, [](const TensorState* tensor) { return tensor_path(*tensor); });
}

const TensorState* Twins::take(const TensorState& stale) {
  const auto found = std::ranges::find_if(free_, [&stale](const TensorState* tensor) {
    return tensor->info.shape == stale.info.shape && tensor->info.dtype == stale.info.dtype;
  });
  if (found == free_.end()) return nullptr;
  const TensorState* twin = *found;
  free_.erase(found);
  return twin;
}

bool takes_turns(const TensorState& tensor, const OptimizerState& optimizer,
                 const RunState& state) {
  const auto is_in_turn = [&](const OptimizerMember& member) {
    const TensorState* other = state.tensor(member.tensor);
    return other != nullptr && other != &tensor && other->registrations.empty() &&
           other->gradients > 0 && other->info.shape == tensor.info.shape;
  };
  return std::ranges::any_of(optimizer.groups, [&is_in_turn](const auto& group) {
    return std::ranges::any_of(group, is_in_turn);
  });
}

}  // namespace ddpscope
