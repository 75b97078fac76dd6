#pragma once

#include "ops/batch_norm/cuda/reading.cuh"
#include "ops/device/last_block.cuh"

/// From partial results to those of a whole channel, always in the order of their index.
namespace ddpscope::cuda {

/// What is known of some values of one channel: sums, or a mean and the sum of the squares of what
/// is away from it.
struct Partial {
  double count = 0, first = 0, second = 0;
};

/// Where the threads of a block lay down partial results, W channels each.
template <int W>
struct Shared {
  double* first;   // [W][kThreads]
  double* second;  // likewise
  double* counts;  // [kThreads]

  __device__ void put(int channel, const Partial& partial) const {
    const int at = channel * kThreads + static_cast<int>(threadIdx.x);
    first[at] = partial.first;
    second[at] = partial.second;
    counts[threadIdx.x] = partial.count;
  }
};

/// Of lanes that are less than `group` apart.
__device__ inline Partial sum_lanes(Partial sum, int group) {
  for (int distance = 1; distance < group; distance *= 2) {
    const Partial other = from_lane(sum, distance);
    sum.count += other.count;
    sum.first += other.first;
    sum.second += other.second;
  }
  return sum;
}

/// The threads that merge: `group` beside each other for one channel of the band.
struct Merger {
  __device__ explicit Merger(std::int64_t band)
      : channels(static_cast<int>(band)),
        group(kThreads / channels < kWarp ? kThreads / channels : kWarp),
        channel(static_cast<int>(threadIdx.x) / group),
        part(static_cast<int>(threadIdx.x) % group) {}
  __device__ bool has_channel() const { return channel < channels; }  // the same for a warp
  __device__ bool tells() const { return has_channel() && part == 0; }
  int channels, group, channel, part;
};

/// What the threads of a block, `lanes` beside each other, have laid down for the channel of each
/// thread. Every thread takes part.
template <class Pass, int W>
__device__ Partial merge_block(const Shared<W>& shared, const Merger& merger, int lanes) {
  __syncthreads();
  if (!merger.has_channel()) return {};
  const int lane = merger.channel / W, column = merger.channel % W * kThreads;
  const auto each = [&](const auto& use) {
    for (int row = merger.part; row < kThreads / lanes; row += merger.group) {
      const int at = row * lanes + lane;
      use(Partial{shared.counts[at], shared.first[column + at], shared.second[column + at]});
    }
  };
  Partial sum;
  each([&](const Partial& partial) {
    sum.count += partial.count;
    sum.first += Pass::kIsMoments ? partial.count * partial.first : partial.first;
    sum.second += partial.second;
  });
  sum = sum_lanes(sum, merger.group);
  if constexpr (Pass::kIsMoments) {
    const double mean = sum.count > 0 ? sum.first / sum.count : 0;
    Partial away;
    each([&](const Partial& partial) {
      const double shift = partial.first - mean;
      away.second += shift * shift * partial.count;
    });
    sum.first = mean;
    sum.second += sum_lanes(away, merger.group).second;
  }
  return sum;
}

/// Partial results in memory of the device: of each a number of values per band, and two numbers
/// per channel.
struct Kept {
  double* data;
  std::int64_t channels, bands;

  __device__ double* of(std::int64_t index) const { return data + index * (2 * channels + bands); }
  __device__ void put(std::int64_t index, std::int64_t band, std::int64_t channel,
                      const Partial& partial, bool tells_count) const {
    double* const to = of(index);
    to[channel] = partial.first;
    to[channels + channel] = partial.second;
    if (tells_count) to[2 * channels + band] = partial.count;
  }
  __device__ Partial get(std::int64_t index, std::int64_t band, std::int64_t channel) const {
    const double* const from = of(index);
    return {read_written(from + 2 * channels + band), read_written(from + channel),
            read_written(from + channels + channel)};
  }
};

/// The `number` partial results from `begin` on, which other blocks have kept. Every thread takes
/// part.
template <class Pass, int W>
__device__ Partial merge_kept(const Kept& kept, std::int64_t band, std::int64_t begin,
                              std::int64_t number, const Shared<W>& shared, const Merger& merger) {
  const int lane = static_cast<int>(threadIdx.x) % merger.channels;
  const int rows = kThreads / merger.channels;
  const std::int64_t channel = band * merger.channels + lane;
  Partial mine;
#pragma unroll 4
  for (std::int64_t i = static_cast<int>(threadIdx.x) / merger.channels; i < number; i += rows) {
    if (channel >= kept.channels) break;
    mine = Pass::merge(mine, kept.get(begin + i, band, channel));
  }
  __syncthreads();  // of what was laid down before nobody reads any more
  const Shared<1> narrow = {shared.first, shared.second, shared.counts};
  narrow.put(0, mine);
  return merge_block<Pass>(narrow, merger, merger.channels);
}

}  // namespace ddpscope::cuda
