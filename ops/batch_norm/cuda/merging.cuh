#pragma once

#include "ops/batch_norm/cuda/reading.cuh"
#include "ops/device/last_block.cuh"

/// From the numbers of threads to those of a whole channel, always in the order of their index.
namespace ddpscope::cuda {

/// What is known of some values of one channel: a count and two numbers.
struct Partial {
  double count = 0, first = 0, second = 0;
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

/// Two numbers are sums.
struct PlainSum {
  Partial sum;

  __device__ void add(const Partial& part) {
    sum.count += part.count;
    sum.first += part.first;
    sum.second += part.second;
  }
  __device__ Partial partial() const { return sum; }
  __device__ static Partial over_lanes(const Partial& mine, int group) {
    return sum_lanes(mine, group);
  }
};

/// Two numbers are a mean and the sum of (x - mean)^2. They are added about the first mean that
/// comes: as it is the mean of some of the values, what they differ by costs few digits.
struct MomentSum {
  double pivot = 0;
  Partial sum;

  /// `rest`: the sum of (x - mean), where it is not the mean but close to it.
  __device__ void add(const Partial& part, double rest = 0) {
    if (sum.count == 0) pivot = part.first;
    const double away = part.first - pivot;
    sum.count += part.count;
    sum.first += rest + part.count * away;
    sum.second += part.second + away * (2 * rest + part.count * away);
  }
  __device__ Partial partial() const {
    if (sum.count == 0) return {};
    const double share = sum.first / sum.count, squares = sum.second - sum.first * share;
    return {sum.count, pivot + share, squares < 0 ? 0 : squares};  // a NaN stays
  }
  __device__ static Partial over_lanes(const Partial& mine, int group) {
    const Partial all = sum_lanes({mine.count, mine.count * mine.first, 0}, group);
    const double mean = all.count > 0 ? all.first / all.count : 0;
    const double shift = mine.first - mean;
    const Partial away = sum_lanes({0, 0, mine.second + mine.count * shift * shift}, group);
    return {all.count, mean, away.second};
  }
};

/// A thread among those that merge: `group` beside each other for one channel of the band.
struct Merger {
  __device__ Merger(const NormTiles& tiles, std::int64_t of_band)
      : band(of_band),
        channels(static_cast<int>(tiles.band)),
        lane_bits(tiles.lane_bits),
        group(kThreads / channels < kWarp ? kThreads / channels : kWarp),
        inside(static_cast<int>(threadIdx.x) / group),
        part(static_cast<int>(threadIdx.x) % group),
        channel(band * channels + inside) {}
  __device__ bool has_channel() const { return inside < channels; }  // the same for a warp
  __device__ bool tells(std::int64_t all_channels) const {
    return has_channel() && part == 0 && channel < all_channels;
  }

  std::int64_t band;
  int channels, lane_bits, group;
  int inside, part;      // of this thread: channel of the band, and place in the group
  std::int64_t channel;  // of all
};

/// Where the threads of a block lay down the numbers of their lanes, W channels each.
template <class Wide, int kNumbers, int W>
struct LaneMemory {
  static constexpr int kColumn = kThreads + 1;  // so that channels lie in different banks
  Wide numbers[kNumbers][W][kColumn];
  int counts[kThreads];
};

/// Where they lay down partial results, one each.
struct PartialMemory {
  double count[kThreads], first[kThreads], second[kThreads];
};

/// Partial results in memory of the device: of each a number of values per band, and two numbers
/// per channel.
struct Kept {
  double* data;
  std::int64_t channels, bands;

  __device__ double* of(std::int64_t index) const { return data + index * (2 * channels + bands); }
  __device__ void put(std::int64_t index, const Merger& merger, const Partial& partial) const {
    if (!merger.tells(channels)) return;
    double* const to = of(index);
    to[merger.channel] = partial.first;
    to[channels + merger.channel] = partial.second;
    if (merger.inside == 0) to[2 * channels + merger.band] = partial.count;
  }
  __device__ Partial get(std::int64_t index, std::int64_t band, std::int64_t channel) const {
    const double* const from = of(index);
    return {read_written(from + 2 * channels + band), read_written(from + channel),
            read_written(from + channels + channel)};
  }
};

struct Range {
  std::int64_t begin, number;
};

/// The partial results of a range, which other blocks have kept, for the channel of each thread.
/// Every thread takes part.
template <class Sum>
__device__ Partial merge_kept(const Kept& kept, const Range& range, PartialMemory& memory,
                              const Merger& merger) {
  const int thread = static_cast<int>(threadIdx.x), rows = kThreads / merger.channels;
  const std::int64_t channel = merger.band * merger.channels + thread % merger.channels;
  Sum sum;
  if (channel < kept.channels) {
#pragma unroll 4
    for (std::int64_t i = thread / merger.channels; i < range.number; i += rows) {
      sum.add(kept.get(range.begin + i, merger.band, channel));
    }
  }
  const Partial mine = sum.partial();
  memory.count[thread] = mine.count;
  memory.first[thread] = mine.first;
  memory.second[thread] = mine.second;
  __syncthreads();
  if (!merger.has_channel()) return {};
  Sum of_rows;
  for (int row = merger.part; row < rows; row += merger.group) {
    const int at = row * merger.channels + merger.inside;
    of_rows.add({memory.count[at], memory.first[at], memory.second[at]});
  }
  return Sum::over_lanes(of_rows.partial(), merger.group);
}

}  // namespace ddpscope::cuda
