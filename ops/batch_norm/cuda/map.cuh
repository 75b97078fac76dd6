#pragma once

#include "ops/batch_norm/cuda/reading.cuh"

/// A pass that makes one element of each, with numbers of its channel.
namespace ddpscope::cuda {

/// Where an access holds elements of other planes, those are left to others.
template <ScalarKind K, int V>
__device__ void store_valid(void* data, std::int64_t at, unsigned valid,
                            const Elements<K, V>& elements) {
  if (valid == (1U << V) - 1) return store_elements<K, V>(data, at, elements);
#pragma unroll
  for (int j = 0; j < V; ++j) {
    if ((valid >> j & 1) != 0) store_elements<K, 1>(data, at + j, {{elements.bits[j]}});
  }
}

/// The numbers of each element of an access, of which some may be of the next plane.
template <int V, class Numbers, class Use>
__device__ void with_numbers_of_planes(int inside, int plane, const Numbers* numbers,
                                       const Use& use) {
  const auto first = static_cast<int>(static_cast<unsigned>(inside) / static_cast<unsigned>(plane));
  const int until = (first + 1) * plane - inside;  // elements of the first
  const Numbers mine = numbers[first];
  if (until >= V) return use([&](int) { return mine; });
  const Numbers next = numbers[first + 1];
  use([&](int j) { return j < until ? mine : next; });
}

template <class Pass, ScalarKind K, int V, Access A, class Batch, class Numbers>
__device__ void map_batch(const typename Pass::Call& call, const Batch& batch,
                          const Numbers* numbers) {
#pragma unroll
  for (int k = 0; k < Batch::kAccesses; ++k) {
    if (batch.valid[k] == 0) continue;
    Elements<K, V> out;
    const auto make = [&](const auto& numbers_of) {
#pragma unroll
      for (int j = 0; j < V; ++j) {
        typename Scalar<K>::Wide dy = 0;
        if constexpr (Pass::kReadsGradient) dy = widen<K>(batch.dy[k], j);
        out.bits[j] = Scalar<K>::narrow(numbers_of(j).of(widen<K>(batch.x[k], j), dy));
      }
    };
    if constexpr (A == Access::kJoined) {
      const auto plane = static_cast<int>(call.view.plane);
      with_numbers_of_planes<V>(batch.inside[k], plane, numbers, make);
    } else {
      make([&](int j) { return numbers[A == Access::kRows ? j : 0]; });
    }
    if constexpr (A == Access::kPartPlanes) {
      store_valid<K, V>(Pass::output(call), batch.at[k], batch.valid[k], out);
    } else {
      store_elements<K, V>(Pass::output(call), batch.at[k], out);
    }
  }
}

template <class Pass, ScalarKind K, int V, Access A>
__global__ void __launch_bounds__(kThreads,
                                  A == Access::kRows && V > 1 && Pass::kReadsGradient ? 3 : 4)
    map_kernel(const __grid_constant__ PassArguments<typename Pass::Call> arguments) {
  using Numbers = typename Pass::template Numbers<typename Scalar<K>::Wide>;
  constexpr bool kIsRows = A == Access::kRows;
  constexpr int kAccesses = V == 1 ? 4 : 2;
  constexpr bool kIsJoined = A == Access::kJoined;
  __shared__ Numbers numbers[kIsRows ? kMostLanes<V> * V : kIsJoined ? V : 1];
  const NormTiles& tiles = arguments.tiles;
  const auto& call = arguments.call;
  // Backwards: what the pass before has read last may still be in the cache.
  Spot<A, V> spot(call.view, tiles, gridDim.x - 1 - blockIdx.x);
  Batch<K, V, kAccesses, Pass::kReadsGradient> batch;
  batch.load(call, spot);  // under way while the numbers are made
  const auto inside = static_cast<std::int64_t>(threadIdx.x);
  const std::int64_t channel = spot.band * tiles.band + inside;
  if (inside < tiles.band && channel < call.view.channels) {
    // Of each channel one block tells what it found.
    numbers[inside] = Pass::template prepare<Numbers>(call, channel, spot.tile == 0);
  }
  __syncthreads();
  Numbers mine[kIsRows ? V : 1];
  for (int j = 0; j < (kIsRows ? V : 1); ++j) mine[j] = numbers[kIsRows ? spot.lane * V + j : 0];
  while (true) {
    map_batch<Pass, K, V, A>(call, batch, kIsJoined ? numbers : mine);
    if (spot.left <= 0) break;
    batch.load(call, spot);
  }
  if (spot.tile == 0) Pass::end(call, tiles);
}

template <class Pass>
int launch_map(const typename Pass::Call& call, bool is_aligned, CUstream_st* stream) noexcept {
  const auto kernel_of = [](auto kind, auto vector, auto access) {
    return map_kernel<Pass, kind.value, vector.value, access.value>;
  };
  return launch_pass</*kJoins=*/true>(PassArguments{call, map_tiles_of(call.view, is_aligned)},
                                      stream, kernel_of);
}

}  // namespace ddpscope::cuda
