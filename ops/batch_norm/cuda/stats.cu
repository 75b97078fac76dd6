#include "ops/batch_norm/cuda/sums.cuh"

namespace ddpscope::cuda {
namespace {

/// Of one run of values: sums of what is away from a base, the mean of the first few, so that
/// neither a large mean nor a value far off costs digits.
template <class Wide>
struct MomentLane {
  Wide base = 0, sum = 0, squares = 0;

  __device__ void begin(const StatsCall&, std::int64_t) {}
  __device__ void add(Wide x, Wide) {
    const Wide away = x - base;
    sum += away;
    squares += away * away;
  }
  __device__ Wide number(int n) const { return n == 0 ? base : n == 1 ? sum : squares; }
};

struct StatsPass {
  using Call = StatsCall;
  template <class Wide>
  using Lane = MomentLane<Wide>;
  using Sum = MomentSum;
  static constexpr bool kReadsGradient = false, kHasBase = true;
  static constexpr int kNumbers = 3;

  __device__ static MomentSum of_lane(int count, const double (&numbers)[3]) {
    return {static_cast<double>(count), numbers[1], numbers[2], numbers[0]};
  }
  template <class>
  __device__ static MomentSum of_lanes(const StatsCall&, std::int64_t, const MomentSum& all) {
    return all;
  }

  __device__ static void emit(const StatsCall& call, std::int64_t channel, const MomentSum& all) {
    const std::int64_t channels = call.view.channels;
    double* const numbers = call.record + 1 + channel;
    const double share = all.count > 0 ? all.first / all.count : 0, mean = all.pivot + share;
    const double about_mean = all.second - all.first * share;
    const double squares = about_mean < 0 ? 0 : about_mean;  // a NaN stays
    if (call.form.is_summed) {
      numbers[0] = all.count * mean;
      numbers[channels] = squares + all.count * mean * mean;
    } else {
      numbers[0] = mean;
      numbers[channels] = squares;
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
  const auto partials = [](const NormTiles& tiles) { return tiles.partials(); };
  return MomentSum::kWords * view.channels * most_of(view, partials);
}

std::int64_t norm_tickets(const NormView& view) noexcept {
  return most_of(view, [](const NormTiles& tiles) { return tiles.tickets(); });
}

int launch_stats(const StatsCall& call, CUstream_st* stream) noexcept {
  return launch_sums<StatsPass>(call, is_aligned(call.x), stream);
}

}  // namespace ddpscope::cuda
