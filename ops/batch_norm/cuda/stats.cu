#include "ops/batch_norm/cuda/sums.cuh"

namespace ddpscope::cuda {
namespace {

/// Mean and sum of (x - mean)^2 of at most kLaneValues values: sums of what is away from a base,
/// the mean of the first few, so that neither a large mean nor a value far off costs digits.
template <class Wide>
struct MomentLane {
  Wide base = 0, sum = 0, squares = 0;

  __device__ void begin(const StatsCall&, std::int64_t) {}
  __device__ void set_base(int count) { base /= static_cast<Wide>(count); }
  __device__ void add(Wide x, Wide) {
    const Wide away = x - base;
    sum += away;
    squares += away * away;
  }
  __device__ Partial partial(const StatsCall&, std::int64_t, int count) const {
    if (count == 0) return {};
    const double total = sum, mean = total / count;
    const double m2 = static_cast<double>(squares) - total * mean;
    return {static_cast<double>(count), base + mean, m2 < 0 ? 0 : m2};  // a NaN stays
  }
};

struct StatsPass {
  using Call = StatsCall;
  template <class Wide>
  using Lane = MomentLane<Wide>;
  static constexpr bool kReadsGradient = false;
  static constexpr bool kIsMoments = true;

  /// By the method of Chan, Golub and LeVeque.
  __device__ static Partial merge(const Partial& left, const Partial& right) {
    if (right.count == 0) return left;
    const double count = left.count + right.count;
    const double share = left.count == right.count ? 0.5 : right.count / count;
    const double shift = right.first - left.first;
    return {count, left.first + shift * share,
            left.second + right.second + shift * shift * (left.count * share)};
  }

  __device__ static void emit(const StatsCall& call, std::int64_t channel, const Partial& all) {
    const std::int64_t channels = call.view.channels;
    double* const numbers = call.record + 1 + channel;
    if (call.form.is_summed) {
      numbers[0] = all.count * all.first;
      numbers[channels] = all.second + all.count * all.first * all.first;
    } else {
      numbers[0] = all.first;
      numbers[channels] = all.second;
    }
    if (channel != 0) return;
    call.record[0] = all.count;
    write_id(call.form, call.record + 1 + 2 * channels);
  }
};

std::int64_t most_of(const NormView& view, std::int64_t (*number)(const NormTiles&)) {
  return std::max(number(tiles_of(view, true)), number(tiles_of(view, false)));
}

}  // namespace

std::int64_t norm_workspace_items(const NormView& view) noexcept {
  const auto numbers = [](const NormTiles& tiles) { return tiles.partials() * tiles.bands; };
  const auto partials = [](const NormTiles& tiles) { return tiles.partials(); };
  return 2 * view.channels * most_of(view, partials) + most_of(view, numbers);
}

std::int64_t norm_tickets(const NormView& view) noexcept {
  return most_of(view, [](const NormTiles& tiles) { return tiles.tickets(); });
}

int launch_stats(const StatsCall& call, CUstream_st* stream) noexcept {
  return launch_sums<StatsPass>(call, is_aligned(call.x), stream);
}

}  // namespace ddpscope::cuda
