#include "ops/batch_norm/cuda/sums.cuh"

namespace ddpscope::cuda {
namespace {

/// Sums of dy and of dy (x - mean) over at most kLaneValues values.
template <class Wide>
struct ProductLane {
  Wide centre = 0, gradients = 0, products = 0;

  __device__ void begin(const ReduceCall& call, std::int64_t channel) {
    centre = static_cast<Wide>(call.statistics[channel]);
  }
  __device__ void add(Wide x, Wide dy) {
    gradients += dy;
    products += dy * (x - centre);
  }
  __device__ Partial partial(const ReduceCall& call, std::int64_t channel, int count) const {
    if (count == 0) return {};
    const double sum = gradients, rest = call.statistics[channel] - static_cast<double>(centre);
    return {static_cast<double>(count), sum, static_cast<double>(products) - rest * sum};
  }
};

struct ReducePass {
  using Call = ReduceCall;
  template <class Wide>
  using Lane = ProductLane<Wide>;
  static constexpr bool kReadsGradient = true;
  static constexpr bool kIsMoments = false;

  __device__ static Partial merge(const Partial& left, const Partial& right) {
    return {left.count + right.count, left.first + right.first, left.second + right.second};
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
