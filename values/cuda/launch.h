#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "values/tensor_values.h"

namespace ddpscope::cuda {

/// What a launch writes to; all of it outlives the launch.
struct ValueBuffers {
  TensorValues* results = nullptr;    ///< one per tensor; pinned host memory or device memory
  TensorValues* workspace = nullptr;  ///< device; `value_chunks` of the list
  unsigned* tickets = nullptr;        ///< device; one per tensor, zero before and after
};

/// Chunks of all tensors of the list, of which each has at least one.
std::int64_t value_chunks(std::span<const TensorData> tensors) noexcept;

/// Brings the kernel to the current device now: the first launch would, and may wait for it.
cudaError_t load_value_kernel() noexcept;

/// Queues the pass over all tensors on `stream`: one launch per 150 tensors. Allocates nothing,
/// waits for nothing. The stream is not captured into a graph.
cudaError_t launch_values(std::span<const TensorData> tensors, const ValueBuffers& buffers,
                          cudaStream_t stream) noexcept;

}  // namespace ddpscope::cuda
