#pragma once

#include <torch/nn/module.h>

#include <span>
#include <typeinfo>

namespace ddpscope {

/// Hooks the builtin forwards that this LibTorch exports. False when none is live.
bool install_module_hooks() noexcept;

/// One class of LibTorch whose forward is hooked where it is live.
struct BuiltinForward {
  const char* name;  ///< as `LinearImpl`
  const std::type_info* type;
  bool returns_one_tensor;
  bool (*is_base_of)(const torch::nn::Module& module);
  bool live;
};
/// All of them, after `install_module_hooks`.
std::span<const BuiltinForward> builtin_forwards();

/// Hooks construction, registration and mode changes of all modules.
bool install_module_changes() noexcept;

}  // namespace ddpscope
