#include "hooks/tree_walk.h"

#include <c10/util/Type.h>

#include "hooks/call_names.h"
#include "hooks/capture.h"
#include "hooks/script_tree.h"

namespace ddpscope {

void TreeWalk::add(const std::string& path, const std::string& name, const at::Tensor& tensor,
                   bool is_buffer) {
  if (!tensor.defined()) return;
  TensorSlot& slot = capture_.tensors().slot(tensor);
  slot.announced = true;  // the tree tells it
  call_names().lies_at(slot.id, tensor);
  if (is_buffer) {
    slot.buffer = true;
    buffers_.push_back(tensor);
  } else {
    parameters_.emplace_back(join(path, name), tensor.getIntrusivePtr());
  }
  event_.tensors.push_back({.module_path = path,
                            .name = name,
                            .is_buffer = is_buffer,
                            .tensor = describe(tensor, slot.id)});
}

void TreeWalk::visit(const torch::nn::Module& module, const std::string& path, int depth) {
  event_.modules.push_back({.id = module_id(&module),
                            .path = path,
                            .type = c10::demangle(typeid(module).name()),
                            .training = module.is_training()});
  for (const auto& item : module.named_parameters(/*recurse=*/false)) {
    add(path, item.key(), item.value(), /*is_buffer=*/false);
  }
  for (const auto& item : module.named_buffers(/*recurse=*/false)) {
    add(path, item.key(), item.value(), /*is_buffer=*/true);
  }
  if (depth == kDeepestTree) return;
  for (const auto& child : module.named_children()) {
    if (child.value() != nullptr) visit(*child.value(), join(path, child.key()), depth + 1);
  }
}

void TreeWalk::visit(const ScriptTree& root) {
  event_.modules = root.modules();
  for (const ScriptTree::Tensor& tensor : root.tensors()) {
    const auto impl = tensor.impl.lock();
    if (impl.defined()) add(tensor.module_path, tensor.name, at::Tensor(impl), tensor.is_buffer);
  }
}

void TreeWalk::visit(const WeakTensors& named, const std::string& class_name) {
  event_.modules.push_back({.path = "", .type = class_name});
  for (const auto& [name, weak] : named) {
    const auto impl = weak.lock();
    if (!impl.defined()) continue;
    const auto dot = name.rfind('.');
    const bool nested = dot != std::string::npos;
    add(nested ? name.substr(0, dot) : "", nested ? name.substr(dot + 1) : name, at::Tensor(impl),
        /*is_buffer=*/false);
  }
}

}  // namespace ddpscope
