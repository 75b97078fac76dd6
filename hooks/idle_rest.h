#pragma once

#include <torch/nn/module.h>

#include "hooks/hook_state.h"
#include "model/hot_code.h"

namespace ddpscope {

class Capture;

// Note [Cycles that do not end]
// Between two steps a program may evaluate for minutes; one that only infers, or that takes its
// gradients from autograd::grad() alone, never ends a step. The governor decides at the end of
// cycles, so that all of it would be watched. So calls are counted from the end of a cycle or a
// backward on: where there are many and hooks took more of the cycle than their budget, they rest
// to its end, or until a layer trains again.

/// Lets hooks rest in a long stretch without steps. Of threads: what several call is counted as
/// one.
class IdleRest {
 public:
  /// A layer is called; not from within a hook.
  DDPSCOPE_HOT static void see_layer(const torch::nn::Module& module) noexcept {
    const Watch watch = hook_state.watch.load(std::memory_order_relaxed);
    if (watch != Watch::kNothing || is_idle()) see_call_of(module);
  }
  /// An operator of the forward ended that no other one called; not from within a hook.
  static void see_operator() noexcept;
  /// A backward or grad() ended.
  static void see_backward(Capture& capture, bool accumulates) noexcept;
  /// Counts anew.
  DDPSCOPE_HOT static void cycle_ended() noexcept {
    hook_state.idle_calls.store(0, std::memory_order_relaxed);
    hook_state.idle.store(false, std::memory_order_relaxed);
  }

 private:
  static bool is_idle() noexcept { return hook_state.idle.load(std::memory_order_relaxed); }
  static void see_call_of(const torch::nn::Module& module) noexcept;
};

}  // namespace ddpscope
