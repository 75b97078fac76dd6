#pragma once

#include "ops/batch_norm/cuda/reading.cuh"
#include "ops/device/last_block.cuh"

/// A pass that makes two numbers per channel: by a thread of its values, by a block of a tile, by
/// the last block of all tiles. Each step in the order of the index.
namespace ddpscope::cuda {

/// Partial results of one thread, `W` channels each, where a block can merge them.
template <int W>
struct Merging {
  double* first;
  double* second;
  double* counts;  // one per thread

  template <class Pass>
  __device__ void merge_below(int distance) const {
    const int mine = static_cast<int>(threadIdx.x), other = mine + distance;
    const double count = counts[mine], added = counts[other];
    for (int j = 0; j < W; ++j) {
      const int to = j * kThreads + mine, from = j * kThreads + other;
      Pass::merge({count, first[to], second[to]}, {added, first[from], second[from]}, first[to],
                  second[to]);
    }
    counts[mine] = count + added;
  }

  /// Threads of one lane onto the first of them.
  template <class Pass>
  __device__ void merge(int lanes) const {
    const int row = static_cast<int>(threadIdx.x) / lanes;
    for (int half = kThreads / lanes / 2; half > 0; half /= 2) {
      __syncthreads();
      if (row < half) merge_below<Pass>(half * lanes);
    }
    __syncthreads();
  }
};

struct Partial {
  double count = 0, first = 0, second = 0;
};

/// The end of a record.
__device__ inline void write_id(const RecordForm& form, double* to) {
  to[0] = form.id;
  if (form.is_summed) to[1] = form.id * form.id;
}

template <class Call>
struct SumArguments {
  Call call;
  NormTiles tiles;
};

/// Values of each of so many channels that a thread holds at once: as registers allow.
template <class Wide>
constexpr int run_of(int channels, bool reads_gradient) {
  const int values = (reads_gradient ? 32 : 64) / (static_cast<int>(sizeof(Wide)) / 4) / channels;
  return std::min(values, 64 / static_cast<int>(sizeof(Wide)));
}

/// The accesses of one thread: `kRun` values of a channel at a time go to its lane.
template <class Pass, ScalarKind K, int V, NormLayout L, class Lane>
__device__ void read_lanes(const SumArguments<typename Pass::Call>& arguments,
                           const Spot<L, V>& spot, Lane* lanes) {
  using Wide = typename Scalar<K>::Wide;
  constexpr bool kIsPlanes = L == NormLayout::kPlanes;
  constexpr int kRun = run_of<Wide>(kIsPlanes ? 1 : V, Pass::kReadsGradient);
  constexpr int kAccesses = kIsPlanes ? kRun / V : kRun;
  constexpr int kGradients = Pass::kReadsGradient ? kAccesses : 1;
  const int accesses = kIsPlanes ? kLaneValues / V : arguments.tiles.lane_values;
  for (int begin = 0; begin < accesses && spot.has(begin); begin += kAccesses) {
    Elements<K, V> x[kAccesses], dy[kGradients];
    int count = 0;
#pragma unroll
    for (int k = 0; k < kAccesses; ++k) {
      if (!spot.has(begin + k)) continue;
      const std::int64_t at = spot.at(begin + k);
      x[k] = load_elements<K, V>(arguments.call.x, at);
      if constexpr (Pass::kReadsGradient) dy[k] = load_elements<K, V>(arguments.call.dy, at);
      count += kIsPlanes ? V : 1;
    }
#pragma unroll
    for (int j = 0; j < (kIsPlanes ? 1 : V); ++j) {
      Wide values[kRun], gradients[Pass::kReadsGradient ? kRun : 1];
#pragma unroll
      for (int i = 0; i < kRun; ++i) {
        const int k = kIsPlanes ? i / V : i, inside = kIsPlanes ? i % V : j;
        if (i >= count) continue;
        values[i] = Scalar<K>::widen(x[k].bits[inside]);
        if constexpr (Pass::kReadsGradient) gradients[i] = Scalar<K>::widen(dy[k].bits[inside]);
      }
      lanes[j].template add<kRun>(values, gradients, count);
    }
  }
}

/// By the last block of a band: all of its tiles, on the threads of the first row.
template <class Pass, int W>
__device__ void merge_tiles(const SumArguments<typename Pass::Call>& arguments, std::int64_t band,
                            const Merging<W>& merging) {
  const NormTiles& tiles = arguments.tiles;
  const NormView& view = arguments.call.view;
  const auto channels = static_cast<int>(tiles.band);
  const std::int64_t channel = band * tiles.band + threadIdx.x % channels;
  const int groups = kThreads / channels;
  Partial mine;
  for (std::int64_t tile = threadIdx.x / channels; tile < tiles.tiles; tile += groups) {
    if (channel >= view.channels) break;
    const std::int64_t left = view.values() - tile * tiles.tile;
    const double* const of_tile =
        arguments.call.workspace.partials + tile * 2 * view.channels + channel;
    const Partial added = {static_cast<double>(left < tiles.tile ? left : tiles.tile),
                           read_written(of_tile), read_written(of_tile + view.channels)};
    Pass::merge(mine, added, mine.first, mine.second);
    mine.count += added.count;
  }
  __syncthreads();
  merging.first[threadIdx.x] = mine.first;
  merging.second[threadIdx.x] = mine.second;
  merging.counts[threadIdx.x] = mine.count;
  const Merging<1> of_groups = {merging.first, merging.second, merging.counts};
  of_groups.template merge<Pass>(channels);
  if (static_cast<int>(threadIdx.x) >= channels || channel >= view.channels) return;
  const int at = static_cast<int>(threadIdx.x);
  Pass::emit(arguments.call, channel, {merging.counts[at], merging.first[at], merging.second[at]});
}

template <class Pass, ScalarKind K, int V, NormLayout L>
__global__ void __launch_bounds__(kThreads, 2)
    sum_kernel(const __grid_constant__ SumArguments<typename Pass::Call> arguments) {
  constexpr int W = L == NormLayout::kPlanes ? 1 : V;  // channels of a thread
  using Lane = typename Pass::template Lane<typename Scalar<K>::Wide>;
  __shared__ double first[kThreads * W];
  __shared__ double second[kThreads * W];
  __shared__ double counts[kThreads];
  const Merging<W> merging = {first, second, counts};
  const NormTiles& tiles = arguments.tiles;
  const Spot<L, V> spot(arguments.call.view, tiles, blockIdx.x);
  Lane lanes[W];
  for (int j = 0; j < W && spot.left > 0; ++j) lanes[j].begin(arguments.call, spot.channel + j);
  read_lanes<Pass, K, V>(arguments, spot, lanes);
  for (int j = 0; j < W; ++j) {
    const Partial partial = lanes[j].partial();
    first[j * kThreads + threadIdx.x] = partial.first;
    second[j * kThreads + threadIdx.x] = partial.second;
    counts[threadIdx.x] = partial.count;
  }
  merging.template merge<Pass>(tiles.lanes);
  const std::int64_t channels = arguments.call.view.channels;
  if (spot.row == 0 && spot.channel < channels) {
    double* const of_tile =
        arguments.call.workspace.partials + spot.tile * 2 * channels + spot.channel;
    for (int j = 0; j < W; ++j) {
      of_tile[j] = first[j * kThreads + threadIdx.x];
      of_tile[channels + j] = second[j * kThreads + threadIdx.x];
    }
  }
  if (!is_last_block(arguments.call.workspace.tickets + spot.band, tiles.tiles)) return;
  merge_tiles<Pass>(arguments, spot.band, merging);
}

template <class Pass>
int launch_sums(const typename Pass::Call& call, bool is_aligned, CUstream_st* stream) noexcept {
  const SumArguments<typename Pass::Call> arguments = {call, tiles_of(call.view, is_aligned)};
  const Grid grid = {arguments.tiles.blocks(), stream};
  return with_access(call.view.kind, arguments.tiles.vector, [&](auto kind, auto vector) {
    constexpr ScalarKind K = decltype(kind)::value;
    constexpr int V = decltype(vector)::value;
    return call.view.layout == NormLayout::kPlanes
               ? launch(sum_kernel<Pass, K, V, NormLayout::kPlanes>, grid, arguments)
               : launch(sum_kernel<Pass, K, V, NormLayout::kRows>, grid, arguments);
  });
}

}  // namespace ddpscope::cuda
