#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace ddpscope::cuda {

struct CudaError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// "cudaMalloc(&data, bytes): out of memory (cudaErrorMemoryAllocation)". Clears the error, which
/// otherwise the next unrelated call would report; one that destroyed the context stays.
inline std::string take_error(cudaError_t code, const char* call) {
  static_cast<void>(cudaGetLastError());
  return std::string(call) + ": " + cudaGetErrorString(code) + " (" + cudaGetErrorName(code) + ")";
}

inline void check(cudaError_t code, const char* call) {
  if (code != cudaSuccess) throw CudaError(take_error(code, call));
}

inline bool succeeded(cudaError_t code) noexcept {
  if (code != cudaSuccess) static_cast<void>(cudaGetLastError());
  return code == cudaSuccess;
}

}  // namespace ddpscope::cuda

/// Every call of the CUDA runtime goes through one of these. The first throws CudaError with the
/// text of the call; the second, for destructors and hooks, is false on failure and never throws.
#define DDPSCOPE_CUDA_CALL(call) ::ddpscope::cuda::check((call), #call)
#define DDPSCOPE_CUDA_CALL_NOEXCEPT(call) ::ddpscope::cuda::succeeded(call)
