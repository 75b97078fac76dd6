#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "hooks/hook_state.h"
#include "model/tensor_info.h"

namespace ddpscope {

class Capture;

/// Of the bytes of a tensor, whatever its elements are; 0 where it cannot be read.
std::uint64_t bits_of(const at::Tensor& tensor);

/// Whether the values of this rank's tensors are compared with those of others.
bool compares_replicas(const Capture& capture);

/// Reads fingerprints of the registered tensors of this thread's models where ranks are compared:
/// buffers when a model comes, before the first forward and at the end of the steps that all ranks
/// compare, parameters before the first backward of such a step, of one after weights were averaged
/// and, of a small model, of each of the first 64, of a tiny one of each 4th; hooks at rest or not.
class ReplicaBits {
 public:
  /// A model came; before the first step it is read.
  static void model_attached(const Capture& capture) noexcept;
  /// Its tree is known; or these were read from an archive.
  static void buffers_attached(Capture& capture, const std::vector<at::Tensor>& buffers);
  /// A part of a forward is about to run.
  static void see_forward() noexcept {
    if (awaits_forward_.load(std::memory_order_relaxed)) before_forward();
  }
  /// One without a gradient, as of a teacher or an evaluation: buffers may have changed since.
  static void see_other_forward() noexcept {
    if (awaits_forward_.load(std::memory_order_relaxed)) {
      awaits_forward_.store(false, std::memory_order_relaxed);
    }
  }
  /// Batch norm uses its running statistics without a gradient.
  static void see_evaluation() noexcept {
    if (!evaluated_.load(std::memory_order_relaxed)) before_evaluation();
  }
  /// A sum over ranks of so many elements, which are no gradients, between a step and the next
  /// backward: weights, if they are as many.
  static void see_sum(std::int64_t elements) noexcept {
    summed_.fetch_add(elements, std::memory_order_relaxed);
    if (elements >= kFewestSummed) awaits_backward_.store(true, std::memory_order_relaxed);
  }
  static void see_backward(Capture& capture);
  static void step_ended(Capture& capture, const Stamp& at);
  /// Whether parameters are read in the step that follows.
  static bool reads_after(const Capture& capture, const Stamp& at) noexcept;
  static void layer_called() noexcept;

 private:
  static void before_forward() noexcept;
  static void note_run() noexcept;
  static void before_evaluation() noexcept;

  static constexpr std::int64_t kFewestSummed = 64;  // fewer are counts and measures
  static inline constinit std::atomic<std::int64_t> summed_{0};
  static inline constinit std::atomic<bool> awaits_forward_{false};
  static inline constinit std::atomic<bool> awaits_backward_{false};
  static inline constinit std::atomic<bool> evaluated_{false};
};

/// A layer is called.
inline void see_forward_begin() noexcept {
  if (hook_state.compares_ranks.load(std::memory_order_relaxed)) ReplicaBits::layer_called();
}

}  // namespace ddpscope
