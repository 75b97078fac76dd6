#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>

#include "ops/device/kernels.h"

namespace ddpscope::device {

/// Where one call of an operator runs.
struct Place {
  const cuda::DeviceKernels* kernels = nullptr;
  c10::Device device = c10::Device(c10::DeviceType::CUDA, 0);
  CUstream_st* stream = nullptr;  ///< current when the operator was called

  /// @throws c10::Error that names the launch, if `code` is not 0.
  void check(int code, const char* launch) const;
  bool is_capturing() const { return kernels->is_capturing(stream); }
  /// So many zeros, to be left zero by whoever uses them: of the stream, for as long as the process
  /// lives; under capture of this call alone, for a graph may run on another stream.
  at::Tensor tickets(std::int64_t count) const;
  at::Tensor empty(std::int64_t count, at::ScalarType dtype) const;
  /// A copy on the device, queued and not waited for. Not under capture.
  at::Tensor upload(std::span<const std::byte> bytes) const;
  /// Zeroed memory that host and device both see, for good.
  /// @throws c10::Error if there is none.
  void* make_notice(std::size_t bytes) const;
};

/// Empty where kernels for this device are at hand, else why they are not, without a full stop.
std::string why_unavailable(const c10::Device& device);

/// On the current stream of the device.
/// @throws c10::Error with `why_unavailable`.
Place current_place(const c10::Device& device);

}  // namespace ddpscope::device
