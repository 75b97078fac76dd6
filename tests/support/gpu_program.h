#pragma once

// For programs of the tests that need a GPU and a LibTorch for CUDA, which they load themselves.
// One source of a program includes it: it stands before functions of LibTorch's runtime.
#include <dlfcn.h>
#include <torch/cuda.h>

#include <atomic>
#include <cstdlib>
#include <iostream>

namespace ddpscope::test {
/// Of this process for its device. The runtime of ddpscope is its own: these are LibTorch's.
inline std::atomic<int> waits{0};

inline int counted(const char* function, void* argument) {
  ++waits;
  using Call = int(void*);
  return reinterpret_cast<Call*>(dlsym(RTLD_NEXT, function))(argument);
}

/// Ends the process as skipped where there is none.
inline void require_gpu() {
  constexpr int kSkipped = 77;  // what ctest counts as skipped
  const bool loaded = dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) != nullptr;
  if (loaded && torch::cuda::is_available()) return;
  std::cout << "skipped: " << (loaded ? "there is no GPU" : "this LibTorch is not one for CUDA")
            << std::endl;
  std::_Exit(kSkipped);
}
}  // namespace ddpscope::test

extern "C" {
__attribute__((visibility("default"))) int cudaDeviceSynchronize() {
  return ddpscope::test::counted("cudaDeviceSynchronize", nullptr);
}
__attribute__((visibility("default"))) int cudaStreamSynchronize(void* stream) {
  return ddpscope::test::counted("cudaStreamSynchronize", stream);
}
__attribute__((visibility("default"))) int cudaEventSynchronize(void* event) {
  return ddpscope::test::counted("cudaEventSynchronize", event);
}
}
