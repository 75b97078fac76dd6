#pragma once

namespace ddpscope::values_test {

/// Calls of the CUDA runtime in this program, ours included: the linker sends them here first.
struct CudaCalls {
  int waits = 0;        ///< for a device, a stream or an event
  int allocations = 0;  ///< on the device or pinned, and frees
};
CudaCalls cuda_calls() noexcept;

}  // namespace ddpscope::values_test
