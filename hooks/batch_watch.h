#pragma once

#include <atomic>

#include "hooks/tensor_registry.h"

namespace ddpscope {

class Capture;
class OperatorTensors;

/// Takes a fingerprint of the batch that a step trains with: of what the first layers read beside
/// their parameters. Where hooks rest the first operator tells only where a forward begins. Level
/// values.
class BatchWatch {
 public:
  /// Some forward began with such an operator, before any layer of LibTorch was called.
  static bool begins_forwards() noexcept { return begins_.load(std::memory_order_relaxed); }
  static bool is_awaited() noexcept { return awaited_.load(std::memory_order_relaxed); }
  /// An operator runs while a batch is awaited.
  static void see(const OperatorTensors& inputs) noexcept;
  /// A backward is about to begin: what it trains with was seen, or never will be.
  static void see_backward(Capture& capture);
  static void step_ended(const Capture& capture) noexcept;
  /// The same where hooks rest: the next operator may begin a forward.
  static void await_forward() noexcept {
    if (begins_forwards()) awaited_.store(true, std::memory_order_relaxed);
  }

 private:
  static inline constinit std::atomic<bool> awaited_{true};
  static inline constinit std::atomic<bool> begins_{false};
};

}  // namespace ddpscope
