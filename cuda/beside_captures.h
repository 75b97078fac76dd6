#pragma once

#include "cuda/cuda_call.h"

namespace ddpscope::cuda {

/// While some thread captures a graph, what allocates or asks for an event would break it, unless
/// the calling thread says that it takes no part. Restores what the thread had said before.
class BesideCaptures {
 public:
  BesideCaptures() noexcept {
    is_set_ = DDPSCOPE_CUDA_CALL_NOEXCEPT(cudaThreadExchangeStreamCaptureMode(&mode_));
  }
  ~BesideCaptures() {
    if (is_set_) DDPSCOPE_CUDA_CALL_NOEXCEPT(cudaThreadExchangeStreamCaptureMode(&mode_));
  }
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
  bool is_set_ = false;
};

}  // namespace ddpscope::cuda
