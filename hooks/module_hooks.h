#pragma once

#include <torch/nn/module.h>

namespace ddpscope {

/// What runs before and after the forward of a module. All recorders are called from here.
struct ModuleHook {
  void (*before)(const torch::nn::Module& module);
  void (*after)(const torch::nn::Module& module, bool threw);
};

/// Adds a recorder; at start-up only.
void add_module_hook(const ModuleHook& hook);

/// Hooks the builtin forwards that this LibTorch exports. False when none is live.
bool install_module_hooks() noexcept;

/// Hooks construction, registration and mode changes of all modules.
bool install_module_changes() noexcept;

}  // namespace ddpscope
