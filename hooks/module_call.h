#pragma once

#include <torch/nn/module.h>

#include <optional>
#include <vector>

#include "hooks/hooked_call.h"
#include "hooks/module_forward.h"
#include "hooks/module_tracker.h"
#include "hooks/user_hooks.h"

namespace ddpscope {

/// One call of a module's forward on this thread: tells that a forward runs, what is called, and
/// the program's own hooks its tensors. While it lives, the module is alive.
class ModuleCall {
 public:
  explicit ModuleCall(const torch::nn::Module& module, CallSource source = CallSource::kForward) {
    if (UserHooks::any()) hooked_.emplace(module, source);
    ModuleCalls::enter(module_id(&module));
    see_module_forward(module);
  }
  ~ModuleCall() { ModuleCalls::leave(); }
  ModuleCall(const ModuleCall&) = delete;
  ModuleCall& operator=(const ModuleCall&) = delete;

  /// Whether the program has hooks on this module: only then `begin` and `end` are called.
  bool is_hooked() const noexcept { return hooked_.has_value() && *hooked_; }
  void begin(std::vector<at::Tensor> inputs) { hooked_->begin(std::move(inputs)); }
  void end(std::vector<at::Tensor> outputs, at::Tensor* result) {
    hooked_->end(std::move(outputs), result);
  }

 private:
  std::optional<HookedCall> hooked_;
};

}  // namespace ddpscope
