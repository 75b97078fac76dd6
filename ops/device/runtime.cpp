#include <cstring>

#include "cuda/beside_captures.h"
#include "ops/device/kernels.h"

namespace ddpscope::cuda {
namespace {

bool is_capturing(CUstream_st* stream) noexcept {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  // Of the default stream this is an error while another stream is captured.
  return !DDPSCOPE_CUDA_CALL_NOEXCEPT(cudaStreamIsCapturing(stream, &capture)) ||
         capture != cudaStreamCaptureStatusNone;
}

void* make_notice(std::size_t bytes) noexcept {
  const BesideCaptures beside;
  void* memory = nullptr;
  if (!DDPSCOPE_CUDA_CALL_NOEXCEPT(
          cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped))) {
    return nullptr;
  }
  std::memset(memory, 0, bytes);
  return memory;
}

const char* error_text(int code) noexcept {
  return cudaGetErrorString(static_cast<cudaError_t>(code));
}

}  // namespace

const DeviceKernels kDeviceKernels = {.clip_parts = clip_parts,
                                      .clip_norm = launch_clip_norm,
                                      .clip_join = launch_clip_join,
                                      .clip_write = launch_clip_write,
                                      .norm_workspace_items = norm_workspace_items,
                                      .norm_tickets = norm_tickets,
                                      .norm_stats = launch_stats,
                                      .normalize = launch_normalize,
                                      .norm_reduce = launch_reduce,
                                      .grad_input = launch_grad_input,
                                      .is_capturing = is_capturing,
                                      .make_notice = make_notice,
                                      .error_text = error_text};

}  // namespace ddpscope::cuda
