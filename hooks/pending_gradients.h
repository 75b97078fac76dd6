#pragma once

#include <ATen/record_function.h>
#include <torch/optim/optimizer.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "hooks/collective_watch.h"
#include "model/autograd_event.h"
#include "model/hot_code.h"

namespace ddpscope {

class Capture;

/// Gradients, and buffers of them, that a collective was given and for which nobody has waited yet.
/// Who reads or writes them meanwhile is told, once for each call, in cycles that are watched and
/// on the thread that issued it: a backend writes them on threads of its own.
class PendingGradients {
 public:
  static bool any() noexcept { return any_.load(std::memory_order_relaxed); }
  DDPSCOPE_HOT static void issued(const CollectiveEvent& event, const CallFacts& facts);
  /// Another thread has issued a collective of it: what writes it here may be the backend, as Gloo
  /// divides for an average.
  static bool is_reduced_for_another(const at::Tensor& written);
  /// The program waited. True where what the call was given had been used before.
  DDPSCOPE_HOT static bool ended(std::uint64_t group, std::uint64_t seq);
  /// It learns the end of the call of this `Work` without a wait, now or later.
  static void told_otherwise(const void* work) noexcept;
  /// The next backward gives other gradients, or adds to those.
  static void see_backward();
  /// It is about to add to `gradient`.
  static void adding(Capture& capture, const at::Tensor& gradient);

  static void written(Capture& capture, const at::Tensor& tensor, std::uint16_t op,
                      const Doing& by);
  /// The gradient whose values begin there, by no operator of LibTorch.
  static void written_at(Capture& capture, const void* values, const char* op);
  /// An operator that the program calls, as surveys see it.
  static void see_operator(Capture& capture, const at::RecordFunction& function);
  /// An optimizer begins to step.
  static void stepping(Capture& capture,
                       const std::vector<torch::optim::OptimizerParamGroup>& groups);

 private:
  static void look_again();

  static inline constinit std::atomic<bool> any_{false};
};

}  // namespace ddpscope
