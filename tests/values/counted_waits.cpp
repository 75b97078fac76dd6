#include "tests/values/counted_waits.h"

#include <cuda_runtime_api.h>

// `ld --wrap=f` turns calls of f into calls of __wrap_f, which reaches f as __real_f.
namespace {
ddpscope::values_test::CudaCalls calls;
}  // namespace

extern "C" {
cudaError_t __real_cudaDeviceSynchronize();
cudaError_t __real_cudaStreamSynchronize(cudaStream_t stream);
cudaError_t __real_cudaEventSynchronize(cudaEvent_t event);
cudaError_t __real_cudaMalloc(void** memory, size_t bytes);
cudaError_t __real_cudaFree(void* memory);
cudaError_t __real_cudaHostAlloc(void** memory, size_t bytes, unsigned flags);

cudaError_t __wrap_cudaDeviceSynchronize() {
  ++calls.waits;
  return __real_cudaDeviceSynchronize();
}
cudaError_t __wrap_cudaStreamSynchronize(cudaStream_t stream) {
  ++calls.waits;
  return __real_cudaStreamSynchronize(stream);
}
cudaError_t __wrap_cudaEventSynchronize(cudaEvent_t event) {
  ++calls.waits;
  return __real_cudaEventSynchronize(event);
}
cudaError_t __wrap_cudaMalloc(void** memory, size_t bytes) {
  ++calls.allocations;
  return __real_cudaMalloc(memory, bytes);
}
cudaError_t __wrap_cudaFree(void* memory) {
  ++calls.allocations;
  return __real_cudaFree(memory);
}
cudaError_t __wrap_cudaHostAlloc(void** memory, size_t bytes, unsigned flags) {
  ++calls.allocations;
  return __real_cudaHostAlloc(memory, bytes, flags);
}
}

namespace ddpscope::values_test {

CudaCalls cuda_calls() noexcept { return calls; }

}  // namespace ddpscope::values_test
