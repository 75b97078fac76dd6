#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <vector>

#include "hooks/user_hooks.h"

namespace ddpscope {

class BackwardOfCall;

/// One call of a module that the program hooked, on the stack of this thread.
class HookedCall {
 public:
  explicit HookedCall(const torch::nn::Module& module, CallSource source, std::string_view op = "");
  ~HookedCall();
  HookedCall(const HookedCall&) = delete;
  HookedCall& operator=(const HookedCall&) = delete;

  /// False where no hook is for this module, or its call is told already: then `begin` and `end`
  /// are not called.
  explicit operator bool() const noexcept { return !hooks_.empty(); }
  /// Each runs callbacks of the program, and throws what they throw.
  void begin(std::vector<at::Tensor> inputs);
  void end(std::vector<at::Tensor> outputs, at::Tensor* result);

 private:
  static bool is_told(const torch::nn::Module& module, CallSource source);
  static HookMatches hooks_of(const torch::nn::Module& module, CallSource source);
  ForwardView view(const HookMember& member, std::span<const at::Tensor> outputs) const;
  bool wants_backward() const;

  const torch::nn::Module& module_;
  const CallSource source_;
  const std::string_view op_;
  const HookMatches hooks_;
  HookedCall* const outer_;
  std::vector<at::Tensor> inputs_;
  std::shared_ptr<BackwardOfCall> backward_;
};

/// Stands while a callback of the program runs: what it calls fires no hooks.
class InCallback {
 public:
  InCallback() noexcept;
  ~InCallback() noexcept;
  InCallback(const InCallback&) = delete;
  InCallback& operator=(const InCallback&) = delete;
  static bool here() noexcept;
};

}  // namespace ddpscope
