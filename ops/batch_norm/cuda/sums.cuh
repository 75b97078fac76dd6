#pragma once

#include "ops/batch_norm/cuda/merging.cuh"

/// A pass that makes two numbers per channel: by a thread of its values, by a block of a tile, by
/// the last block of all tiles. Each step in the order of the index.
namespace ddpscope::cuda {

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

/// Gives the lanes of a thread, one per channel, all that the thread reads. The values read.
template <class Pass, ScalarKind K, int V, Access A, class Lane>
__device__ int read_lanes(const typename Pass::Call& call, Spot<A, V>& spot, Lane* lanes) {
  constexpr int kAccesses = V == 1 ? 8 : Pass::kReadsGradient ? 2 : 4;
  constexpr bool kIsRows = A == Access::kRows;
  Batch<K, V, kAccesses, Pass::kReadsGradient> batch;
  const auto add = [&](auto&& use) {
#pragma unroll
    for (int k = 0; k < kAccesses; ++k) {
      if (batch.valid[k] == 0) continue;
#pragma unroll
      for (int j = 0; j < V; ++j) {
        if (A == Access::kPartPlanes && (batch.valid[k] >> j & 1) == 0) continue;
        typename Scalar<K>::Wide dy = 0;
        if constexpr (Pass::kReadsGradient) dy = Scalar<K>::widen(batch.dy[k].bits[j]);
        use(lanes[kIsRows ? j : 0], Scalar<K>::widen(batch.x[k].bits[j]), dy);
      }
    }
  };
  int count = 0;
  while (spot.left > 0) {
    batch.load(call, spot);
    int added = 0;
#pragma unroll
    for (int k = 0; k < kAccesses; ++k) {
      added += kIsRows ? (batch.valid[k] != 0 ? 1 : 0) : __popc(batch.valid[k]);
    }
    if constexpr (Pass::kIsMoments) {
      if (count == 0 && added > 0) {
        add([](Lane& lane, auto x, auto) { lane.base += x; });
        for (int j = 0; j < (kIsRows ? V : 1); ++j) lanes[j].set_base(added);
      }
    }
    add([](Lane& lane, auto x, auto dy) { lane.add(x, dy); });
    count += added;
  }
  return count;
}

/// By all threads, with the results of a tile: those of all tiles, where this block was the last
/// of its band. Whether it was.
template <class Pass, int W>
__device__ bool merge_tiles(const SumArguments<typename Pass::Call>& arguments, std::int64_t tile,
                            std::int64_t band, const Shared<W>& shared, Partial& partial) {
  const NormTiles& tiles = arguments.tiles;
  if (tiles.tiles == 1) return true;
  const Workspace& workspace = arguments.call.workspace;
  const Kept kept = {workspace.partials, arguments.call.view.channels, tiles.bands};
  const Merger merger(tiles.band);
  const std::int64_t channel = band * tiles.band + merger.channel;
  const bool keeps = merger.tells() && channel < kept.channels;
  if (keeps) kept.put(tile, band, channel, partial, merger.channel == 0);
  const std::int64_t group = tile / tiles.group, begin = group * tiles.group;
  const std::int64_t left = tiles.tiles - begin;
  const std::int64_t number = left < tiles.group ? left : tiles.group;
  unsigned* const of_group = workspace.tickets + tiles.bands + group * tiles.bands + band;
  if (!is_last_block(of_group, number)) return false;
  partial = merge_kept<Pass>(kept, band, begin, number, shared, merger);
  if (tiles.groups == 1) return true;
  if (keeps) kept.put(tiles.tiles + group, band, channel, partial, merger.channel == 0);
  if (!is_last_block(workspace.tickets + band, tiles.groups)) return false;
  partial = merge_kept<Pass>(kept, band, tiles.tiles, tiles.groups, shared, merger);
  return true;
}

template <class Pass, ScalarKind K, int V, Access A>
__global__ void __launch_bounds__(kThreads, A == Access::kRows && V > 1 ? 3 : 4)
    sum_kernel(const __grid_constant__ SumArguments<typename Pass::Call> arguments) {
  constexpr int W = A == Access::kRows ? V : 1;  // channels of a thread
  using Lane = typename Pass::template Lane<typename Scalar<K>::Wide>;
  __shared__ double first[kThreads * W];
  __shared__ double second[kThreads * W];
  __shared__ double counts[kThreads];
  const Shared<W> shared = {first, second, counts};
  const NormTiles& tiles = arguments.tiles;
  Spot<A, V> spot(arguments.call.view, tiles, blockIdx.x);
  Lane lanes[W];
  for (int j = 0; j < W && spot.left > 0; ++j) lanes[j].begin(arguments.call, spot.channel + j);
  const int count = read_lanes<Pass, K, V, A>(arguments.call, spot, lanes);
  for (int j = 0; j < W; ++j) {
    shared.put(j, lanes[j].partial(arguments.call, spot.channel + j, count));
  }
  const Merger merger(tiles.band);
  Partial partial = merge_block<Pass>(shared, merger, tiles.lanes);
  if (!merge_tiles<Pass>(arguments, spot.tile, spot.band, shared, partial)) return;
  const std::int64_t channel = spot.band * tiles.band + merger.channel;
  if (merger.tells() && channel < arguments.call.view.channels) {
    Pass::emit(arguments.call, channel, partial);
  }
}

template <class Pass>
int launch_sums(const typename Pass::Call& call, bool is_aligned, CUstream_st* stream) noexcept {
  const SumArguments<typename Pass::Call> arguments = {call, tiles_of(call.view, is_aligned)};
  return with_access(call.view.kind, arguments.tiles, [&](auto kind, auto vector, auto access) {
    return launch(
        sum_kernel<Pass, decltype(kind)::value, decltype(vector)::value, decltype(access)::value>,
        {arguments.tiles.blocks(), stream}, arguments);
  });
}

}  // namespace ddpscope::cuda
