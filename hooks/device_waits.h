#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>

#include "hooks/hook_scope.h"
#include "hooks/hook_state.h"
#include "hooks/near_tls.h"
#include "model/wait_event.h"

namespace ddpscope {

struct TrainingThread {
  enum class Place : std::uint8_t { kOutside, kStep, kBetween };
  Place place = Place::kOutside;
  std::int64_t host_reads = 0;
  double step_ended_ms = 0;  ///< since the start of the capture
};

/// Where a thread stands in its training, and what it waited there. Nothing but counting the reads
/// of host tensors is done in a process that has used no device.
class DeviceWaits {
 public:
  /// Notes that the process uses a device, where the tensor lies on one.
  static bool lies_on_device(const at::Tensor& tensor) {
    const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    if (impl.is_cpu() || !tensor.defined() || impl.is_meta()) return false;
    if (!is_device_used()) hook_state.device_used.store(true, std::memory_order_relaxed);
    return true;
  }
  static bool is_device_used() noexcept {
    return hook_state.device_used.load(std::memory_order_relaxed);
  }
  static void count_host_read() noexcept { ++here_.host_reads; }

  /// This thread runs a part of a forward.
  static void see_forward(bool trains) noexcept {
    if (trains) {
      here_.place = Place::kStep;
    } else if (here_.place == Place::kBetween) {
      here_.place = Place::kOutside;  // what follows is an evaluation
    }
  }
  static void see_backward() noexcept { here_.place = Place::kStep; }
  /// This thread has ended the step that `at` is of.
  static void step_ended(Capture& capture, const Stamp& at);

  /// This thread waited.
  static void add(WaitIn function, std::uint64_t spent_ticks) noexcept;

 private:
  using Place = TrainingThread::Place;

  DDPSCOPE_NEAR static inline constinit thread_local TrainingThread here_{};
};

/// What a call of such a function is.
enum class Wait : std::uint8_t { kNone, kHostRead, kForDevice };

/// One call of such a function. What it calls itself is part of it.
class WaitScope {
 public:
  WaitScope(WaitIn function, Wait wait) noexcept : function_(function), wait_(wait) {
    if (wait == Wait::kNone || depth_++ > 0) return;
    if (wait == Wait::kHostRead) {
      DeviceWaits::count_host_read();
    } else {
      begin_ = ticks();
    }
  }
  ~WaitScope() {
    if (wait_ == Wait::kNone) return;
    --depth_;
    if (begin_ != 0) DeviceWaits::add(function_, ticks() - begin_);
  }
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;

 private:
  DDPSCOPE_NEAR static inline constinit thread_local int depth_ = 0;

  WaitIn function_;
  Wait wait_;
  std::uint64_t begin_ = 0;
};

/// An operator that asks how many or which values `tensor` has.
inline Wait read_of(const at::Tensor& tensor) {
  return DeviceWaits::lies_on_device(tensor) ? Wait::kForDevice : Wait::kHostRead;
}
/// `to.copy_(from, non_blocking)`
inline Wait copy_of(const at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  const bool stays = DeviceWaits::lies_on_device(to);
  const bool leaves = DeviceWaits::lies_on_device(from) && !stays;
  return leaves && !non_blocking ? Wait::kForDevice : Wait::kNone;
}

/// Looks at the calls of all of them but `copy_`, which is a writer.
bool install_wait_ops() noexcept;

}  // namespace ddpscope
