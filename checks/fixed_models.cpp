#include "checks/fixed_models.h"

#include <algorithm>
#include <set>
#include <vector>

#include "checks/lapsed_owners.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kMostOfConstant = 4;  // elements, as of a mean and a deviation per channel
constexpr std::size_t kMostOperators = 32;

bool is_member(const RunState& state, const TensorState& tensor) {
  return tensor.info.requires_grad && is_held(state, tensor);
}

bool is_constant(const TensorInfo& info) {
  return info.floating && info.elements <= kMostOfConstant;
}

/// What an operator reads, and what that was made of, are members of an optimizer or constants.
class MadeOfMembers {
 public:
  explicit MadeOfMembers(const RunState& state) : state_(state) {}

  bool holds_for(TensorId id) {
    std::vector<TensorId> open = {id};
    std::set<TensorId> seen = {id};
    bool any = false;
    while (!open.empty()) {
      const TensorId now = state_.trace().leaf_behind(open.back());
      open.pop_back();
      const OpTrace::Record* const maker = state_.trace().record_of(now);
      const TensorState* const tensor = state_.tensor(now);
      if (tensor != nullptr && is_member(state_, *tensor)) {
        any = true;
      } else if (maker != nullptr) {
        for (const TensorId input : maker->inputs) {
          if (seen.insert(input).second) open.push_back(input);
        }
      } else if (tensor == nullptr || !is_constant(tensor->info)) {
        return false;
      }
      if (seen.size() > kMostOperators) return false;
    }
    return any;
  }

 private:
  const RunState& state_;
};
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
    return std::ranges::any_of(record.inputs, [&](TensorId id) {
      return !is_of(id) && MadeOfMembers(state).holds_for(id);
    });
  });
}

}  // namespace ddpscope
