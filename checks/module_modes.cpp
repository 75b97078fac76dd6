#include "checks/module_modes.h"

namespace ddpscope {

void ModuleModes::update(const TreeEvent& event) {
  std::erase_if(modes_, [&event](const auto& entry) { return entry.first.first == event.model; });
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

}  // namespace ddpscope
