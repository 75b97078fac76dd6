#pragma once

#include <cstddef>

#include "ops/batch_norm/cuda/launch.h"
#include "ops/clip/cuda/launch.h"

namespace ddpscope::cuda {

/// What libddpscope_device.so holds of the operators. Launches return the code of an error, 0 for
/// none; they wait for nothing, allocate nothing and throw nothing.
struct DeviceKernels {
  std::size_t size = sizeof(DeviceKernels);  // differs where the library is of another version
  std::int64_t (*clip_parts)(std::span<const ClipRow>) noexcept = nullptr;
  int (*clip_norm)(const ClipNormCall&, CUstream_st*) noexcept = nullptr;
  int (*clip_join)(const ClipJoinCall&, CUstream_st*) noexcept = nullptr;
  int (*clip_write)(const ClipWriteCall&, CUstream_st*) noexcept = nullptr;
  std::int64_t (*norm_workspace_items)(const NormView&) noexcept = nullptr;
  std::int64_t (*norm_tickets)(const NormView&) noexcept = nullptr;
  int (*norm_stats)(const StatsCall&, CUstream_st*) noexcept = nullptr;
  int (*normalize)(const NormalizeCall&, CUstream_st*) noexcept = nullptr;
  int (*norm_reduce)(const ReduceCall&, CUstream_st*) noexcept = nullptr;
  int (*grad_input)(const GradInputCall&, CUstream_st*) noexcept = nullptr;
  /// Whether work queued now would become part of a graph.
  bool (*is_capturing)(CUstream_st*) noexcept = nullptr;
  /// Zeroed memory that host and device both see, never given back; null if there is none.
  void* (*make_notice)(std::size_t bytes) noexcept = nullptr;
  const char* (*error_text)(int code) noexcept = nullptr;
};

/// Those of the file, for the kernels that it was built with.
extern const DeviceKernels kDeviceKernels;

extern "C" {
using FindDeviceKernels = const DeviceKernels*();
FindDeviceKernels ddpscope_device_kernels;
}

}  // namespace ddpscope::cuda
