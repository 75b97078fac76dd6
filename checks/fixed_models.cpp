#include "checks/fixed_models.h"

#include <algorithm>

#include "checks/lapsed_owners.h"
#include "checks/made_of.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kMostOfConstant = 4;  // elements, as of a mean and a deviation per channel

bool is_member(const RunState& state, TensorId id) {
  const TensorState* const tensor = state.tensor(id);
  return tensor != nullptr && tensor->info.requires_grad && is_held(state, *tensor);
}

bool is_constant(const RunState& state, TensorId id) {
  const TensorState* const tensor = state.tensor(id);
  return tensor != nullptr && tensor->info.floating && tensor->info.elements <= kMostOfConstant;
}

bool is_made_of_members(TensorId id, const RunState& state) {
  return is_made_of(
      id, state, [&](TensorId source) { return is_member(state, source); },
      [&](TensorId beside) { return is_constant(state, beside); });
}
}  // namespace

bool is_of_untrained_model(const RunState& state, const TensorState& tensor) {
  const ModelState* const model = state.model_of(tensor);
  const bool some_step = std::ranges::any_of(
      state.optimizers(), [](const auto& entry) { return entry.second.steps > 0; });
  if (model == nullptr || !some_step) return false;
  return std::ranges::none_of(model->tensors, [&](const RegisteredTensor& registered) {
    const TensorState* const other = state.tensor(registered.tensor.id);
    if (other == nullptr || other->is_buffer) return false;
    return is_held(state, *other) || other->was_written || other->is_copied ||
           !other->written_by.empty();
  });
}

bool is_behind_members(const RunState& state, const TensorState& tensor) {
  if (!is_of_untrained_model(state, tensor)) return false;
  const ModelState* const model = state.model_of(tensor);
  return are_behind_members([&](const TensorState& read) { return state.model_of(read) == model; },
                            state);
}

bool are_behind_members(const std::function<bool(const TensorState&)>& is_of_them,
                        const RunState& state) {
  const auto is_of = [&](TensorId id) {
    const TensorState* const read = state.tensor(state.trace().leaf_behind(id));
    return read != nullptr && is_of_them(*read);
  };
  return std::ranges::any_of(state.trace().records(), [&](const OpTrace::Record& record) {
    if (std::ranges::none_of(record.inputs, is_of)) return false;
    return std::ranges::any_of(
        record.inputs, [&](TensorId id) { return !is_of(id) && is_made_of_members(id, state); });
  });
}

}  // namespace ddpscope
