#include "hooks/script_tree.h"

#include <torch/csrc/jit/api/module.h>

#include <algorithm>
#include <map>

#include "hooks/tree_walk.h"

namespace ddpscope {
namespace {
// The lists themselves: `named_parameters` of a script module is one of the calls that are hooked.
template <class List>
List own(const torch::jit::Module& module) {
  return List(module, /*recurse=*/false, /*return_module=*/false);
}
}  // namespace

ScriptTree::ScriptTree(const torch::jit::Module& root) { add(root, "", 0); }

void ScriptTree::add(const torch::jit::Module& module, const std::string& path, int depth) {
  modules_.push_back({.id = module_id(object_of(module)),
                      .path = path,
                      .type = class_of(module),
                      .training = module.is_training()});
  const auto keep = [&](const std::string& name, const at::Tensor& tensor, bool is_buffer) {
    if (tensor.defined())
      tensors_.push_back({path, name, is_buffer, Tensor::Weak(tensor.getIntrusivePtr())});
  };
  for (const auto& item : own<torch::jit::named_parameter_list>(module)) {
    keep(item.name, item.value, /*is_buffer=*/false);
  }
  for (const auto& item : own<torch::jit::named_buffer_list>(module)) {
    keep(item.name, item.value, /*is_buffer=*/true);
  }
  if (depth == kDeepestTree) return;
  for (const auto& child : own<torch::jit::named_module_list>(module)) {
    add(child.value, join(path, child.name), depth + 1);
  }
}

bool ScriptTree::is_over() const {
  return !tensors_.empty() &&
         std::ranges::all_of(tensors_, [](const Tensor& tensor) { return tensor.impl.expired(); });
}

void ScriptTree::follow_modes(const ScriptTree& part) {
  std::map<ModuleId, bool> modes;
  for (const ModuleInfo& module : part.modules()) modes[module.id] = module.training;
  for (ModuleInfo& module : modules_) {
    const auto known = modes.find(module.id);
    if (known != modes.end()) module.training = known->second;
  }
}

const void* object_of(const torch::jit::Module& module) { return module._ivalue().get(); }

std::string class_of(const torch::jit::Module& module) {
  const auto name = module.type()->name();
  return name ? name->name() : "ScriptModule";
}

}  // namespace ddpscope
