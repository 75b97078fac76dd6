#include "checks/module_modes.h"

#include <algorithm>

namespace ddpscope {

void ModuleModes::update(const TreeEvent& event, const std::map<ModelId, ModelState>& models) {
  std::erase_if(modes_, [&](const auto& entry) {
    const ModelId model = entry.first.first;
    return model == event.model || !models.contains(model);
  });
  for (const ModuleInfo& module : event.modules) {
    modes_[{event.model, module.path}].training = module.training;
  }
  for (const RegisteredTensor& registered : event.tensors) {
    if (registered.is_buffer) continue;
    Mode& mode = modes_[{event.model, registered.module_path}];
    ++mode.parameters;
    if (registered.tensor.requires_grad) ++mode.trainable;
  }
}

const ModuleModes::Mode* ModuleModes::find(const Place& place) const {
  const auto found = modes_.find(place);
  return found == modes_.end() ? nullptr : &found->second;
}

bool ModuleModes::any_trains(ModelId model) const {
  return std::ranges::any_of(modes_, [model](const auto& entry) {
    return entry.first.first == model && entry.second.trainable > 0;
  });
}

bool is_written(const TensorTable& tensors, const ModuleModes::Place& place, std::int64_t after) {
  const auto is_here = [&](const Registration& at) {
    return ModuleModes::Place(at.model, at.module_path) == place;
  };
  return std::ranges::any_of(tensors.all(), [&](const auto& entry) {
    const TensorState& tensor = entry.second;
    return !tensor.is_buffer && tensor.written_step > after &&
           std::ranges::any_of(tensor.registrations, is_here);
  });
}

}  // namespace ddpscope
