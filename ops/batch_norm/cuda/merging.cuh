#pragma once

#include "ops/batch_norm/cuda/reading.cuh"
#include "ops/device/last_block.cuh"

/// From the numbers of threads to those of a whole channel, always in the order of their index.
namespace ddpscope::cuda {

/// Two sums of some values of one channel.
struct PlainSum {
  static constexpr int kWords = 2;
  double first = 0, second = 0;

  __device__ static PlainSum none_like(const PlainSum&) { return {}; }
  __device__ void join(const PlainSum& other) {
    first += other.first;
    second += other.second;
  }
  __device__ void add(const PlainSum& other) { join(other); }
};

/// How many values of one channel, and the sums of x - pivot and of its square. As the pivot is one
/// of the values or the mean of some, what others differ from it by costs few digits.
struct MomentSum {
  static constexpr int kWords = 4;
  double count = 0, first = 0, second = 0, pivot = 0;

  __device__ static MomentSum none_like(const MomentSum& other) { return {0, 0, 0, other.pivot}; }
  /// Of one pivot.
  __device__ void join(const MomentSum& other) {
    count += other.count;
    first += other.first;
    second += other.second;
  }
  __device__ void add(const MomentSum& other) {
    const double away = other.pivot - pivot;
    count += other.count;
    first += other.first + other.count * away;
    second += other.second + away * (2 * other.first + other.count * away);
  }
};

/// Of lanes that are less than `group` apart, and have one pivot.
template <class Sum>
__device__ Sum join_lanes(Sum sum, int group) {
  for (int distance = 1; distance < group; distance *= 2) sum.join(from_lane(sum, distance));
  return sum;
}

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

  template <class Lane>
  __device__ void put(const Lane (&lanes)[W], int count) {
    const int thread = static_cast<int>(threadIdx.x);
    for (int j = 0; j < W; ++j) {
      for (int n = 0; n < kNumbers; ++n) numbers[n][j][thread] = lanes[j].number(n);
    }
    counts[thread] = count;
  }
};

/// Words of a sum, `step` apart.
template <class Sum>
__device__ void put_words(const Sum& sum, double* to, std::int64_t step) {
  double words[Sum::kWords];
  memcpy(words, &sum, sizeof words);
#pragma unroll
  for (int i = 0; i < Sum::kWords; ++i) to[i * step] = words[i];
}
template <class Sum, class Read>
__device__ Sum get_words(const Read& read) {
  double words[Sum::kWords];
#pragma unroll
  for (int i = 0; i < Sum::kWords; ++i) words[i] = read(i);
  Sum sum;
  memcpy(&sum, words, sizeof words);
  return sum;
}

/// Where they lay down sums, one each.
template <class Sum>
struct SumMemory {
  double words[Sum::kWords][kThreads];

  __device__ void put(int thread, const Sum& sum) { put_words(sum, words[0] + thread, kThreads); }
  __device__ Sum get(int thread) const {
    return get_words<Sum>([&](int i) { return words[i][thread]; });
  }
};

/// Sums in memory of the device, of all channels each.
template <class Sum>
struct Kept {
  double* data;
  std::int64_t channels;

  __device__ double* of(std::int64_t index, std::int64_t channel) const {
    return data + index * Sum::kWords * channels + channel;
  }
  __device__ void put(std::int64_t index, std::int64_t channel, const Sum& sum) const {
    put_words(sum, of(index, channel), channels);
  }
  __device__ Sum get(std::int64_t index, std::int64_t channel) const {
    const double* const from = of(index, channel);
    return get_words<Sum>([&](int i) { return read_written(from + i * channels); });
  }
};

struct Range {
  std::int64_t begin, number;
};

/// Of a range, which other blocks have kept, for the channel of each thread. Every thread takes
/// part.
template <class Sum>
__device__ Sum merge_kept(const Kept<Sum>& kept, const Range& range, SumMemory<Sum>& memory,
                          const Merger& merger) {
  const int thread = static_cast<int>(threadIdx.x), rows = kThreads / merger.channels;
  const std::int64_t channel = merger.band * merger.channels + thread % merger.channels;
  Sum sum;
  if (channel < kept.channels) {
    sum = Sum::none_like(kept.get(range.begin, channel));
#pragma unroll 4
    for (std::int64_t i = thread / merger.channels; i < range.number; i += rows) {
      sum.add(kept.get(range.begin + i, channel));
    }
  }
  memory.put(thread, sum);
  __syncthreads();
  if (!merger.has_channel()) return {};
  const int filled = range.number < rows ? static_cast<int>(range.number) : rows;
  sum = Sum::none_like(memory.get(merger.inside));
  for (int row = merger.part; row < filled; row += merger.group) {
    sum.join(memory.get(row * merger.channels + merger.inside));
  }
  return join_lanes(sum, merger.group);
}

}  // namespace ddpscope::cuda
