#pragma once

#include <torch/nn/module.h>

#include <string>
#include <utility>
#include <vector>

#include "model/tree_event.h"

namespace ddpscope {

class Capture;
class ScriptTree;
using WeakTensors = std::vector<std::pair<std::string, c10::weak_intrusive_ptr<c10::TensorImpl>>>;

inline ModuleId module_id(const void* object) noexcept {
  return reinterpret_cast<std::uintptr_t>(object);
}

inline constexpr int kDeepestTree = 200;

/// `path.name`
inline std::string join(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

/// Writes into an event what is registered below a root, modules before their children.
class TreeWalk {
 public:
  TreeWalk(Capture& capture, TreeEvent& event) : capture_(capture), event_(event) {}

  void visit(const torch::nn::Module& root) { visit(root, "", 0); }
  /// Of its tensors those that are alive.
  void visit(const ScriptTree& root);
  /// Of a program without modules: parameters that are alive.
  void visit(const WeakTensors& named, const std::string& class_name);

  /// By path.
  WeakTensors take_parameters() { return std::move(parameters_); }
  const std::vector<at::Tensor>& buffers() const { return buffers_; }

 private:
  void visit(const torch::nn::Module& module, const std::string& path, int depth);
  void add(const std::string& path, const std::string& name, const at::Tensor& tensor,
           bool is_buffer);

  Capture& capture_;
  TreeEvent& event_;
  WeakTensors parameters_;
  std::vector<at::Tensor> buffers_;
};

}  // namespace ddpscope
