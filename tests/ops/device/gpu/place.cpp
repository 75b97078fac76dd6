#include <c10/core/CPUAllocator.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "cuda/cuda_call.h"
#include "tests/ops/device/test_device.h"

namespace ddpscope::test {
namespace {

constexpr int kSkipped = 77;  // what ctest counts as skipped

void give_back(void* memory) { DDPSCOPE_CUDA_CALL_NOEXCEPT(cudaFree(memory)); }

/// Tensors of the CPU in memory that the GPU sees, too: so a LibTorch without CUDA is enough.
struct ManagedMemory final : c10::Allocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    void* memory = nullptr;
    if (bytes > 0) DDPSCOPE_CUDA_CALL(cudaMallocManaged(&memory, bytes));
    return {memory, memory, &give_back, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

void require_device() {
  int devices = 0;
  const cudaError_t asked = cudaGetDeviceCount(&devices);
  if (asked == cudaSuccess && devices > 0) return;
  std::cout << "skipped: "
            << (asked == cudaSuccess ? "there is no CUDA device"
                                     : cuda::take_error(asked, "cudaGetDeviceCount(&devices)"))
            << std::endl;
  std::_Exit(kSkipped);
}

/// The test reads on the CPU what the launch has written.
int finished(int launched) { return launched != 0 ? launched : cudaDeviceSynchronize(); }

template <auto Launch, class Call>
int launch_and_wait(const Call& call, CUstream_st* stream) noexcept {
  return finished(Launch(call, stream));
}

}  // namespace

const device::Place& test_place() {
  static const cuda::DeviceKernels kernels = [] {
    require_device();
    static ManagedMemory managed;
    c10::SetCPUAllocator(&managed, /*priority=*/1);
    cuda::DeviceKernels waiting = cuda::kDeviceKernels;
    waiting.clip_norm = launch_and_wait<cuda::launch_clip_norm, cuda::ClipNormCall>;
    waiting.clip_join = launch_and_wait<cuda::launch_clip_join, cuda::ClipJoinCall>;
    waiting.clip_write = launch_and_wait<cuda::launch_clip_write, cuda::ClipWriteCall>;
    waiting.norm_stats = launch_and_wait<cuda::launch_stats, cuda::StatsCall>;
    waiting.normalize = launch_and_wait<cuda::launch_normalize, cuda::NormalizeCall>;
    waiting.norm_reduce = launch_and_wait<cuda::launch_reduce, cuda::ReduceCall>;
    waiting.grad_input = launch_and_wait<cuda::launch_grad_input, cuda::GradInputCall>;
    return waiting;
  }();
  static const device::Place place = {&kernels, c10::Device(c10::kCPU), nullptr};
  return place;
}

namespace {
// Before the first tensor of a test.
[[maybe_unused]] const bool is_ready = test_place().kernels != nullptr;
}  // namespace

}  // namespace ddpscope::test
