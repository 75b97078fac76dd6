#pragma once

#include <ATen/record_function.h>

#include <atomic>

namespace ddpscope {

class Capture;

/// What the program makes of its gradients between backward and step, as surveys see it: whether
/// they are compressed, as by `topk` or `sign`, or weights are added to them. Then what a step uses
/// is no multiple of the ranks' sum, and that is meant.
class GradientFlow {
 public:
  /// Once an operator did that; to the end of the run, as most steps are not surveyed.
  static bool is_compressed() noexcept { return is_compressed_.load(std::memory_order_relaxed); }
  static void see_backward() noexcept;
  /// Before the operator; whether it reads gradients, or what was computed from them.
  static bool see_operator(Capture& capture, const at::RecordFunction& function);
  /// After it, where it does.
  static void see_result(const at::RecordFunction& function);

 private:
  static inline constinit std::atomic<bool> is_compressed_{false};
};

}  // namespace ddpscope
