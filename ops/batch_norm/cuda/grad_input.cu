#include "ops/batch_norm/cuda/map.cuh"

namespace ddpscope::cuda {
namespace {

/// What a mean in `Wide` leaves of the mean is part of the shift.
template <class Wide>
struct Slope {
  Wide centre, scale, shift, slope;
  __device__ Wide of(Wide x, Wide dy) const { return (dy - shift - (x - centre) * slope) * scale; }
};

struct GradInputPass {
  using Call = GradInputCall;
  template <class Wide>
  using Numbers = Slope<Wide>;
  static constexpr bool kReadsGradient = true;

  __device__ static void* output(const GradInputCall& call) { return call.dx; }

  template <class Made>
  __device__ static Made prepare(const GradInputCall& call, std::int64_t channel, bool tells) {
    const std::int64_t channels = call.view.channels;
    const std::int64_t items = backward_record_items(channels, call.form.is_summed);
    double gradients = 0, products = 0;
    for (int rank = 0; rank < (call.form.is_summed ? 1 : call.form.ranks); ++rank) {
      gradients += call.records[rank * items + channel];
      products += call.records[rank * items + channels + channel];
    }
    if (tells) {
      call.total[channel] = gradients;
      call.total[channels + channel] = products;
      if (channel == 0 && call.mixed_up != nullptr &&
          !are_ids_equal(call.records, call.form, items)) {
        call.mixed_up->place = call.place;
      }
    }
    const double inverse_count = call.statistics[2 * channels];
    const double inverse_deviation = call.statistics[channels + channel];
    using Wide = decltype(Made::scale);
    const double mean = call.statistics[channel];
    const Wide centre = static_cast<Wide>(mean);
    const double rest = mean - static_cast<double>(centre);
    const double slope = inverse_deviation * inverse_deviation * products * inverse_count;
    const double scale = inverse_deviation * read_channel(call.weight, channel, 1);
    return {centre, static_cast<Wide>(scale),
            static_cast<Wide>(gradients * inverse_count - rest * slope), static_cast<Wide>(slope)};
  }

  __device__ static void end(const GradInputCall&, const NormTiles&) {}
};

}  // namespace

int launch_grad_input(const GradInputCall& call, CUstream_st* stream) noexcept {
  const bool is_whole = is_aligned(call.x) && is_aligned(call.dy) && is_aligned(call.dx);
  return launch_map<GradInputPass>(call, is_whole, stream);
}

}  // namespace ddpscope::cuda
