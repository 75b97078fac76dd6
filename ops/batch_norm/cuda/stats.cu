#include "ops/batch_norm/cuda/sums.cuh"

namespace ddpscope::cuda {
namespace {

/// Mean and sum of (x - mean)^2 of at most kLaneValues values. Blocks of N are measured in two
/// passes and merged by the method of Chan, Golub and LeVeque.
template <class Wide>
struct MomentLane {
  // Where all values are far from zero, a mean in `Wide` lacks digits: it is counted from a base
  // near it, from which the values differ exactly.
  Wide base = 0;
  Wide count = 0, mean = 0, m2 = 0;

  __device__ void begin(const StatsCall&, std::int64_t) {}

  template <int N>
  __device__ void add(const Wide (&values)[N], const Wide*, int added) {
    const auto number = static_cast<Wide>(added);
    if (count == 0) base = sum_from(values, 0, added) / number;
    const Wide block_mean = sum_from(values, base, added) / number;
    Wide squares = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const Wide rest = (values[i] - base) - block_mean;
      if (i < added) squares += rest * rest;
    }
    const Wide shift = block_mean - mean;
    const Wide share = number / (count + number);
    m2 += squares + shift * shift * (count * share);
    mean += shift * share;
    count += number;
  }
  __device__ Partial partial() const {
    return {count, static_cast<double>(base) + static_cast<double>(mean), m2};
  }

 private:
  template <int N>
  __device__ static Wide sum_from(const Wide (&values)[N], Wide from, int added) {
    Wide sum = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (i < added) sum += values[i] - from;
    }
    return sum;
  }
};

struct StatsPass {
  using Call = StatsCall;
  template <class Wide>
  using Lane = MomentLane<Wide>;
  static constexpr bool kReadsGradient = false;

  __device__ static void merge(const Partial& left, const Partial& right, double& mean,
                               double& m2) {
    if (right.count == 0) return;
    const double share = left.count == right.count ? 0.5 : right.count / (left.count + right.count);
    const double shift = right.first - left.first;
    mean = left.first + shift * share;
    m2 = left.second + right.second + shift * shift * (left.count * share);
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
  return 2 * view.channels * most_of(view, [](const NormTiles& tiles) { return tiles.tiles; });
}

std::int64_t norm_tickets(const NormView& view) noexcept {
  return most_of(view, [](const NormTiles& tiles) { return tiles.bands; });
}

int launch_stats(const StatsCall& call, CUstream_st* stream) noexcept {
  return launch_sums<StatsPass>(call, is_aligned(call.x), stream);
}

}  // namespace ddpscope::cuda
