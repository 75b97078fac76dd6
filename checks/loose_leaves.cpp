#include "checks/run_state.h"

namespace ddpscope {

std::vector<const TensorState*> RunState::loose_leaves() const {
  std::vector<const TensorState*> loose;
  for (const TensorId id : repeated_leaves_) {
    const TensorState* tensor = tensors_.find(id);
    if (tensor != nullptr && tensor->registrations.empty() && tensor->owners.empty() &&
        tensor->info.floating && !tensor->left_with_root && tensor->written_by.empty() &&
        !is_data(*tensor) && !may_be_copy_of_thread(*tensor)) {
      loose.push_back(tensor);
    }
  }
  return loose;
}

bool RunState::is_data(const TensorState& tensor) const {
  return tensor.is_asked && tensor.registrations.empty() &&
         !loose_modules_.contains(tensor.info.id);
}

std::string RunState::loose_module_type(TensorId id) const {
  const auto found = loose_modules_.find(id);
  return found == loose_modules_.end() ? "" : found->second.type;
}

bool RunState::loose_module_evaluates(TensorId id) const {
  const auto found = loose_modules_.find(id);
  return found != loose_modules_.end() && found->second.evaluates;
}

bool RunState::loose_module_is_shared(TensorId id) const {
  const auto found = loose_modules_.find(id);
  return found != loose_modules_.end() && found->second.is_shared;
}

}  // namespace ddpscope
