#include "ops/batch_norm/cuda/map.cuh"
#include "ops/device/last_block.cuh"

namespace ddpscope::cuda {
namespace {

struct AllMoments {
  double count = 0, mean = 0, m2 = 0;
};

__device__ AllMoments gathered_moments(const NormalizeCall& call, std::int64_t channel) {
  const std::int64_t channels = call.view.channels;
  AllMoments all;
  for (int rank = 0; rank < call.form.ranks; ++rank) {
    const double* const record = call.records + rank * forward_record_items(channels, false);
    const double count = record[0];
    if (count == 0) continue;
    const double share = count / (all.count + count);
    const double shift = record[1 + channel] - all.mean;
    all.mean += shift * share;
    all.m2 += record[1 + channels + channel] + shift * shift * (all.count * share);
    all.count += count;
  }
  return all;
}

__device__ AllMoments moments_of(const NormalizeCall& call, std::int64_t channel) {
  if (!call.form.is_summed) return gathered_moments(call, channel);
  const double count = call.records[0];
  if (count == 0) return {};
  const double sum = call.records[1 + channel];
  const double m2 = call.records[1 + call.view.channels + channel] - sum * (sum / count);
  return {count, sum / count, m2 < 0 ? 0 : m2};  // below 0 by rounding alone; a NaN stays
}

__device__ void move(const PerChannel& running, std::int64_t channel, double value,
                     double momentum) {
  if (running.data == nullptr) return;
  const double before = read_channel(running, channel, 0);
  write_channel(running, channel, before * (1 - momentum) + value * momentum);
}

__device__ void tell(const NormalizeCall& call, std::int64_t channel, const AllMoments& all) {
  if (channel == 0) {
    call.statistics[2 * call.view.channels] = all.count > 0 ? 1 / all.count : 0;
    const std::int64_t items = forward_record_items(call.view.channels, call.form.is_summed);
    if (call.mixed_up != nullptr && !are_ids_equal(call.records, call.form, items)) {
      call.mixed_up->place = call.place;
    }
  }
  if (all.count == 0) return;
  const double momentum =
      call.momentum == call.momentum ? call.momentum : 1.0 / (*call.counter + 1.0);
  move(call.running_mean, channel, all.mean, momentum);
  // One value has no unbiased variance: what was known before stays.
  if (all.count >= 2) move(call.running_variance, channel, all.m2 / (all.count - 1), momentum);
}

/// What a mean in `Wide` leaves of the mean is part of the shift.
template <class Wide>
struct Normal {
  Wide centre, scale, shift;
  __device__ Wide of(Wide x, Wide) const { return (x - centre) * scale + shift; }
};

struct NormalizePass {
  using Call = NormalizeCall;
  template <class Wide>
  using Numbers = Normal<Wide>;
  static constexpr bool kReadsGradient = false;

  __device__ static void* output(const NormalizeCall& call) { return call.y; }

  template <class Made>
  __device__ static Made prepare(const NormalizeCall& call, std::int64_t channel, bool tells) {
    const std::int64_t channels = call.view.channels;
    double mean, inverse_deviation;
    if (call.records == nullptr) {
      mean = call.statistics[channel];
      inverse_deviation = call.statistics[channels + channel];
    } else {
      const AllMoments all = moments_of(call, channel);
      mean = all.mean;
      const double variance = all.count > 0 ? all.m2 / all.count : 0;
      const double square = variance + call.eps;
      inverse_deviation = square == 0 ? 0 : rsqrt(square);
      if (tells) {
        call.statistics[channel] = mean;
        call.statistics[channels + channel] = inverse_deviation;
        tell(call, channel, all);
      }
    }
    using Wide = decltype(Made::scale);
    const Wide centre = static_cast<Wide>(mean);
    const double rest = mean - static_cast<double>(centre);
    const double scale = inverse_deviation * read_channel(call.weight, channel, 1);
    const double shift = read_channel(call.bias, channel, 0) - rest * scale;
    return {centre, static_cast<Wide>(scale), static_cast<Wide>(shift)};
  }

  /// When all bands have read the counter, it counts.
  __device__ static void end(const NormalizeCall& call, const NormTiles& tiles) {
    if (call.counter == nullptr || !is_last_block(call.tickets, tiles.bands)) return;
    if (threadIdx.x == 0 && moments_of(call, 0).count > 0) ++*call.counter;
  }
};

}  // namespace

int launch_normalize(const NormalizeCall& call, CUstream_st* stream) noexcept {
  return launch_map<NormalizePass>(call, is_aligned(call.x) && is_aligned(call.y), stream);
}

}  // namespace ddpscope::cuda
