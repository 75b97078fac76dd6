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

/// Gives the lanes of a thread, one per channel, what a batch holds. The values of a channel.
template <class Pass, ScalarKind K, int V, Access A, class Batch, class Lane>
__device__ int add_batch(const Batch& batch, bool is_first, Lane* lanes) {
  constexpr bool kIsRows = A == Access::kRows;
  const auto each = [&](auto&& use) {
#pragma unroll
    for (int k = 0; k < Batch::kAccesses; ++k) {
      if (batch.valid[k] == 0) continue;
#pragma unroll
      for (int j = 0; j < V; ++j) {
        if (A == Access::kPartPlanes && (batch.valid[k] >> j & 1) == 0) continue;
        typename Scalar<K>::Wide dy = 0;
        if constexpr (Pass::kReadsGradient) dy = widen<K>(batch.dy[k], j);
        use(lanes[kIsRows ? j : 0], widen<K>(batch.x[k], j), dy);
      }
    }
  };
  int added = 0;
#pragma unroll
  for (int k = 0; k < Batch::kAccesses; ++k) {
    added += kIsRows ? (batch.valid[k] != 0 ? 1 : 0) : __popc(batch.valid[k]);
  }
  if constexpr (Pass::kHasBase) {
    if (is_first && added > 0) {
      each([](Lane& lane, auto x, auto) { lane.base += x; });
      const auto share = 1 / static_cast<decltype(lanes->base)>(added);
      for (int j = 0; j < (kIsRows ? V : 1); ++j) lanes[j].base *= share;
    }
  }
  each([](Lane& lane, auto x, auto dy) { lane.add(x, dy); });
  return added;
}

/// All that a thread reads. The values of a channel.
template <class Pass, ScalarKind K, int V, Access A, class Lane>
__device__ int read_lanes(const typename Pass::Call& call, Spot<A, V>& spot, Lane* lanes) {
  // As many as registers hold twice.
  constexpr int kAccesses =
      V == 1 ? 8 : (A == Access::kPartPlanes ? 2 : 4) / (Pass::kReadsGradient ? 2 : 1);
  using Accesses = Batch<K, V, kAccesses, Pass::kReadsGradient>;
  if (spot.left <= 0) return 0;
  Accesses batch;
  batch.load(call, spot);
  int count = 0;
  while (spot.left > 0) {
    Accesses next;
    next.load(call, spot);  // under way while the one before is added
    count += add_batch<Pass, K, V, A>(batch, count == 0, lanes);
    batch = next;
  }
  return count + add_batch<Pass, K, V, A>(batch, count == 0, lanes);
}

/// What the lanes of a block have found, for the channel of each thread.
template <class Pass, class Wide, Access A, int W>
__device__ typename Pass::Sum merge_lanes(const typename Pass::Call& call,
                                          const LaneMemory<Wide, Pass::kNumbers, W>& memory,
                                          const Merger& merger) {
  using Sum = typename Pass::Sum;
  if (!merger.has_channel()) return {};
  const auto thread_of = [&](int row) {
    return Seat<A>{row, merger.inside / W}.thread(merger.lane_bits);
  };
  const auto lane_of = [&](int row) {
    const int at = thread_of(row);
    double numbers[Pass::kNumbers];
    for (int n = 0; n < Pass::kNumbers; ++n) numbers[n] = memory.numbers[n][merger.inside % W][at];
    return Pass::of_lane(memory.counts[at], numbers);
  };
  const int rows = kThreads >> merger.lane_bits;
  int first = 0;  // that has values
  while (Pass::kHasBase && first < rows - 1 && memory.counts[thread_of(first)] == 0) ++first;
  Sum sum = Sum::none_like(lane_of(first));
#pragma unroll 4
  for (int row = merger.part; row < rows; row += merger.group) sum.add(lane_of(row));
  sum = join_lanes(sum, merger.group);
  if (merger.channel >= call.view.channels) return sum;
  return Pass::template of_lanes<Wide>(call, merger.channel, sum);
}

/// By all threads, with the results of a tile: those of all tiles, where this block was the last
/// of its band. Whether it was.
template <class Pass, class Sum>
__device__ bool merge_tiles(const PassArguments<typename Pass::Call>& arguments, std::int64_t tile,
                            SumMemory<Sum>& memory, const Merger& merger, Sum& sum) {
  const NormTiles& tiles = arguments.tiles;
  if (tiles.tiles == 1) return true;
  const Workspace& workspace = arguments.call.workspace;
  const Kept<Sum> kept = {workspace.partials, arguments.call.view.channels};
  const bool tells = merger.tells(kept.channels);
  if (tells) kept.put(tile, merger.channel, sum);
  const std::int64_t group = quotient_of(tile, tiles.group), begin = group * tiles.group;
  const std::int64_t left = tiles.tiles - begin;
  const Range of_group = {begin, left < tiles.group ? left : tiles.group};
  unsigned* const of_band = workspace.tickets + merger.band;
  if (!is_last_block(of_band + (1 + group) * tiles.bands, of_group.number)) return false;
  sum = merge_kept(kept, of_group, memory, merger);
  if (tiles.groups == 1) return true;
  if (tells) kept.put(tiles.tiles + group, merger.channel, sum);
  if (!is_last_block(of_band, tiles.groups)) return false;
  sum = merge_kept(kept, {tiles.tiles, tiles.groups}, memory, merger);
  return true;
}

template <class Pass, ScalarKind K, int V, Access A>
__global__ void __launch_bounds__(kThreads, A == Access::kRows && V > 1 ? 3 : 4)
    sum_kernel(const __grid_constant__ PassArguments<typename Pass::Call> arguments) {
  constexpr int W = A == Access::kRows ? V : 1;  // channels of a thread
  using Wide = typename Scalar<K>::Wide;
  using Lane = typename Pass::template Lane<Wide>;
  // One after the other.
  __shared__ union Memory {
    LaneMemory<Wide, Pass::kNumbers, W> lanes;
    SumMemory<typename Pass::Sum> sums;
  } memory;
  const auto& call = arguments.call;
  const NormTiles& tiles = arguments.tiles;
  Spot<A, V> spot(call.view, tiles, blockIdx.x);
  Lane lanes[W];
  for (int j = 0; j < W && spot.left > 0; ++j) lanes[j].begin(call, spot.channel + j);
  const int count = read_lanes<Pass, K, V, A>(call, spot, lanes);
  memory.lanes.put(lanes, count);
  __syncthreads();
  const Merger merger(tiles, spot.band);
  auto sum = merge_lanes<Pass, Wide, A, W>(call, memory.lanes, merger);
  if (!merge_tiles<Pass>(arguments, spot.tile, memory.sums, merger, sum)) return;
  if (merger.tells(call.view.channels)) Pass::emit(call, merger.channel, sum);
}

template <class Pass>
int launch_sums(const typename Pass::Call& call, bool is_aligned, CUstream_st* stream) noexcept {
  const auto kernel_of = [](auto kind, auto vector, auto access) {
    return sum_kernel<Pass, kind.value, vector.value, access.value>;
  };
  return launch_pass</*kJoins=*/false>(PassArguments{call, tiles_of(call.view, is_aligned)}, stream,
                                       kernel_of);
}

}  // namespace ddpscope::cuda
