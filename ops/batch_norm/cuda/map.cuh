#pragma once

#include "ops/batch_norm/cuda/reading.cuh"

/// A pass that makes one element of each, with numbers of its channel.
namespace ddpscope::cuda {

template <class Call>
struct MapArguments {
  Call call;
  NormTiles tiles;
};

template <class Pass, ScalarKind K, int V, NormLayout L, class Numbers>
__device__ void map_accesses(const typename Pass::Call& call, const Spot<L, V>& spot,
                             const NormTiles& tiles, const Numbers* numbers) {
  constexpr bool kIsPlanes = L == NormLayout::kPlanes;
  constexpr int W = kIsPlanes ? 1 : V;
  Numbers mine[W];
#pragma unroll
  for (int j = 0; j < W; ++j) mine[j] = numbers[kIsPlanes ? 0 : spot.lane * V + j];
  const int accesses = kIsPlanes ? kLaneValues / V : tiles.lane_values;
#pragma unroll 4
  for (int i = 0; i < accesses; ++i) {
    if (!spot.has(i)) break;
    const std::int64_t at = spot.at(i);
    const auto x = load_elements<K, V>(call.x, at);
    Elements<K, V> dy = {}, out;
    if constexpr (Pass::kReadsGradient) dy = load_elements<K, V>(call.dy, at);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      out.bits[j] = Scalar<K>::narrow(
          mine[kIsPlanes ? 0 : j].of(Scalar<K>::widen(x.bits[j]), Scalar<K>::widen(dy.bits[j])));
    }
    store_elements<K, V>(Pass::output(call), at, out);
  }
}

template <class Pass, ScalarKind K, int V, NormLayout L>
__global__ void __launch_bounds__(kThreads)
    map_kernel(const __grid_constant__ MapArguments<typename Pass::Call> arguments) {
  using Numbers = typename Pass::template Numbers<typename Scalar<K>::Wide>;
  __shared__ Numbers numbers[L == NormLayout::kPlanes ? 1 : kMostLanes * V];
  const NormTiles& tiles = arguments.tiles;
  // Backwards: what the pass before has read last may still be in the cache.
  const Spot<L, V> spot(arguments.call.view, tiles, tiles.blocks() - 1 - blockIdx.x);
  const auto inside = static_cast<std::int64_t>(threadIdx.x);
  const std::int64_t channel = spot.band * tiles.band + inside;
  if (inside < tiles.band && channel < arguments.call.view.channels) {
    // Of each channel one block tells what it found.
    numbers[inside] = Pass::template prepare<Numbers>(arguments.call, channel, spot.tile == 0);
  }
  __syncthreads();
  map_accesses<Pass, K, V>(arguments.call, spot, tiles, numbers);
  if (spot.tile == 0) Pass::end(arguments.call, tiles);
}

template <class Pass>
int launch_map(const typename Pass::Call& call, bool is_aligned, CUstream_st* stream) noexcept {
  const MapArguments<typename Pass::Call> arguments = {call, tiles_of(call.view, is_aligned)};
  const Grid grid = {arguments.tiles.blocks(), stream};
  return with_access(call.view.kind, arguments.tiles.vector, [&](auto kind, auto vector) {
    constexpr ScalarKind K = decltype(kind)::value;
    constexpr int V = decltype(vector)::value;
    return call.view.layout == NormLayout::kPlanes
               ? launch(map_kernel<Pass, K, V, NormLayout::kPlanes>, grid, arguments)
               : launch(map_kernel<Pass, K, V, NormLayout::kRows>, grid, arguments);
  });
}

}  // namespace ddpscope::cuda
