#include "ops/clip/cuda/finish.cuh"

namespace ddpscope::cuda {
namespace {

template <PowerKind P>
__global__ void __launch_bounds__(kThreads) join_kernel(const __grid_constant__ ClipJoinCall call) {
  const std::int64_t rows = call.layout.rows;
  for (std::int64_t row = threadIdx.x; row < rows; row += kThreads) {
    ClipSums sums = call.sums[row];
    for (int device = 1; device < call.devices; ++device) {
      sums = merge<P>(sums, call.sums[device * rows + row]);
    }
    tell_row<P>(sums, row, call.rule, call.layout, call.buffers);
  }
  __threadfence();
  __syncthreads();
  finish<P>(call.rule, call.layout, call.buffers, /*ends=*/nullptr, /*number=*/0);
}

}  // namespace

int launch_clip_join(const ClipJoinCall& call, CUstream_st* stream) noexcept {
  return with_power(call.rule.p, [&](auto power) {
    return launch(join_kernel<decltype(power)::value>, {1, stream}, call);
  });
}

}  // namespace ddpscope::cuda
