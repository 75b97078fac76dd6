#include "ops/batch_norm/cuda/sums.cuh"

namespace ddpscope::cuda {
namespace {

/// Sums of dy and of dy (x - centre) over one run of values.
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
  __device__ Wide number(int n) const { return n == 0 ? gradients : products; }
};

struct ReducePass {
  using Call = ReduceCall;
  template <class Wide>
  using Lane = ProductLane<Wide>;
  using Sum = PlainSum;
  static constexpr bool kReadsGradient = true, kHasBase = false;
  static constexpr int kNumbers = 2;

  __device__ static PlainSum of_lane(int, const double (&numbers)[2]) {
    return {numbers[0], numbers[1]};
  }
  /// The centre was the mean as `Wide` has it.
  template <class Wide>
  __device__ static PlainSum of_lanes(const ReduceCall& call, std::int64_t channel, PlainSum all) {
    const double mean = call.statistics[channel];
    all.second -= (mean - static_cast<double>(static_cast<Wide>(mean))) * all.first;
    return all;
  }

  __device__ static void emit(const ReduceCall& call, std::int64_t channel, const PlainSum& all) {
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
  const bool is_whole = is_aligned(call.x) && is_aligned(call.dy);
  return launch_sums<ReducePass>(call, is_whole, stream);
}

}  // namespace ddpscope::cuda
