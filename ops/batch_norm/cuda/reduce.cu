#include "ops/batch_norm/cuda/sums.cuh"

namespace ddpscope::cuda {
namespace {

/// Sums of dy and of dy (x - mean) over at most kLaneValues values.
template <class Wide>
struct ProductLane {
  Centre<Wide> centre;
  Wide count = 0, gradients_sum = 0, products_sum = 0;

  __device__ void begin(const ReduceCall& call, std::int64_t channel) {
    centre = Centre<Wide>::of(call.statistics[channel]);
  }

  template <int N>
  __device__ void add(const Wide (&values)[N], const Wide (&gradients)[N], int added) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (i >= added) continue;
      gradients_sum += gradients[i];
      products_sum += gradients[i] * centre.away(values[i]);
    }
    count += static_cast<Wide>(added);
  }
  __device__ Partial partial() const { return {count, gradients_sum, products_sum}; }
};

struct ReducePass {
  using Call = ReduceCall;
  template <class Wide>
  using Lane = ProductLane<Wide>;
  static constexpr bool kReadsGradient = true;

  __device__ static void merge(const Partial& left, const Partial& right, double& gradients,
                               double& products) {
    gradients = left.first + right.first;
    products = left.second + right.second;
  }

  __device__ static void emit(const ReduceCall& call, std::int64_t channel, const Partial& all) {
    const std::int64_t channels = call.view.channels;
    for (double* const to : {call.record, call.own}) {
      to[channel] = all.first;
      to[channels + channel] = all.second;
    }
    write_channel(call.bias_gradient, channel, all.first);
    write_channel(call.weight_gradient, channel, all.second * call.statistics[channels + channel]);
    if (channel == 0) write_id(call.form, call.record + 2 * channels);
  }
};

}  // namespace

int launch_reduce(const ReduceCall& call, CUstream_st* stream) noexcept {
  return launch_sums<ReducePass>(call, is_aligned(call.x) && is_aligned(call.dy), stream);
}

}  // namespace ddpscope::cuda
