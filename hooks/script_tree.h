#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "model/tree_event.h"

namespace torch::jit {
struct Module;
}

namespace ddpscope {

/// What a module of TorchScript held when it was looked at. It owns nothing: an object of
/// TorchScript keeps all that it holds as long as anybody points at it, even weakly.
class ScriptTree {
 public:
  struct Tensor {
    using Weak = c10::weak_intrusive_ptr<c10::TensorImpl>;
    std::string module_path;
    std::string name;
    bool is_buffer = false;
    Weak impl;
  };

  ScriptTree() = default;
  explicit ScriptTree(const torch::jit::Module& root);

  bool is_any() const noexcept { return !modules_.empty(); }
  /// Its tensors are gone.
  bool is_over() const;
  bool is_training() const { return is_any() && modules_.front().training; }
  /// Takes over the modes of the modules that `part` shares with it.
  void follow_modes(const ScriptTree& part);

  const std::vector<ModuleInfo>& modules() const { return modules_; }  ///< the root first
  const std::vector<Tensor>& tensors() const { return tensors_; }

 private:
  void add(const torch::jit::Module& module, const std::string& path, int depth);

  std::vector<ModuleInfo> modules_;
  std::vector<Tensor> tensors_;
};

/// The place of its object, as that of a module in C++ tells it from others while it is alive.
const void* object_of(const torch::jit::Module& module);
/// The name of its class, without that of its file.
std::string class_of(const torch::jit::Module& module);

}  // namespace ddpscope
