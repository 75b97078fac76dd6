#pragma once

#include "cuda/kernel.cuh"

namespace ddpscope::cuda {

/// Whether all other blocks that share the ticket have written what they had to; the same for all
/// threads, of which each takes part. Leaves the ticket zero.
__device__ inline bool is_last_block(unsigned* ticket, std::int64_t blocks) {
  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0) {
    is_last = count_arrival(ticket) == static_cast<unsigned>(blocks) - 1;
    if (is_last) *ticket = 0;
  }
  __syncthreads();
  return is_last;
}

}  // namespace ddpscope::cuda
