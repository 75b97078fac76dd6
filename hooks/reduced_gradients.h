#pragma once

#include <torch/optim/optimizer.h>

#include <atomic>
#include <vector>

#include "hooks/tensor_registry.h"
#include "model/backward_event.h"
#include "model/collective_event.h"

namespace ddpscope {

class Capture;

/// Reads the gradients of some parameters twice where ranks are compared: when they have arrived,
/// which is before any rank's averaging, and when their optimizer begins to step.
class ReducedGradients {
 public:
  /// Whether gradients of this step are read.
  static bool are_wanted() noexcept { return wanted_.load(std::memory_order_relaxed); }
  /// A backward is about to begin.
  static void see_backward(Capture& capture);
  /// One that returns gradients, as of `autograd::grad()`: the program may write them where the
  /// next step reads them.
  static void see_returning() noexcept { returned_.store(true, std::memory_order_relaxed); }
  /// An optimizer is about to clear the gradients of these: what the program writes there itself is
  /// not what arrived.
  static void cleared(Capture& capture,
                      const std::vector<torch::optim::OptimizerParamGroup>& groups);
  /// A collective is given gradients.
  static void issued(const CollectiveEvent& event);
  /// `leaf` is about to be given a gradient, which is added to what `before` tells of.
  static void will_arrive(const TensorSlot& slot, const at::Tensor& leaf,
                          GradientBefore before) noexcept;
  /// In place of `arrived`, before `incoming` is added, where a hook of the program is called with
  /// the sum before the accumulation returns: such a hook may average it at once.
  static void arrives_at_hook(const TensorSlot& slot, const at::Tensor& leaf,
                              const at::Tensor& incoming) noexcept;
  /// `leaf` has its gradient, and no hook of the program has seen it there.
  static void arrived(const TensorSlot& slot, const at::Tensor& leaf) noexcept;
  /// The program writes the gradient, and more than a factor or a copy of what was reduced.
  static void changed(const TensorSlot& slot) noexcept;
  static void before_step(Capture& capture,
                          const std::vector<torch::optim::OptimizerParamGroup>& groups);

 private:
  static void begin_step(Capture& capture);

  static inline constinit std::atomic<bool> wanted_{false};
  static inline constinit std::atomic<bool> returned_{false};  ///< since a step began
};

}  // namespace ddpscope
