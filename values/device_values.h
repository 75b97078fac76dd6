#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "values/tensor_values.h"

struct CUstream_st;  // cudaStream_t points to it

namespace ddpscope {

/// The value pass on a GPU, one list of tensors at a time: launch, go on, ask later.
///
/// Uses the device that is current on the calling thread, in every call the same one. All memory is
/// taken by the constructor; `launch` allocates nothing; nothing but the destructor waits for the
/// device. A capture of the program's is neither joined nor broken, on whichever thread it runs. A
/// build without CUDA has it too, and says so in `why_unavailable`. Thread: one at a time. The
/// tensors stay untouched until the stream has passed the launch.
class DeviceValues {
 public:
  struct Capacity {
    int tensors = 0;
    std::int64_t elements = 0;  ///< in all tensors together
  };

  /// Empty if a GPU can be used, else one sentence without a full stop.
  static std::string why_unavailable();

  /// Whether work queued on `stream` now would become part of a graph, or would break one.
  static bool is_capturing(CUstream_st* stream) noexcept;

  /// @throws std::runtime_error with the failed call, or why_unavailable().
  explicit DeviceValues(Capacity capacity);
  ~DeviceValues();
  DeviceValues(const DeviceValues&) = delete;
  DeviceValues& operator=(const DeviceValues&) = delete;

  /// Queues the pass over `tensors`, on the device, after what `stream` holds. False, and no
  /// values come of it, if the last list is not ready, this one exceeds the capacity, the stream is
  /// being captured, or CUDA refuses.
  bool launch(std::span<const TensorData> tensors, CUstream_st* stream) noexcept;

  /// True before any launch, and once the values of the last one are there or the device is lost.
  bool is_ready() noexcept;

  /// Those of the last launch, in its order; valid until the next. Empty while it is not ready, and
  /// if the device was lost.
  std::span<const TensorValues> results() noexcept;

  /// The name of the error of the first call that failed, such as `cudaErrorIllegalAddress`; empty:
  /// none did. What `launch` refuses for other reasons is no failure.
  std::string_view failure() const noexcept;

 private:
  bool zero_tickets(CUstream_st* stream) noexcept;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ddpscope
