#pragma once

#include "ops/batch_norm/cuda/tiles.h"
#include "ops/device/scalar.cuh"

namespace ddpscope::cuda {

static_assert(kBlockThreads == kThreads);

inline bool is_aligned(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
}

/// What a thread of a block reads: accesses from `row` on, `depth` apart, of which each holds one
/// value of V channels, or of planes V values of one.
template <NormLayout L, int V>
struct Spot {
  __device__ Spot(const NormView& view, const NormTiles& tiles, std::int64_t block)
      : tile(block / tiles.bands),
        band(block % tiles.bands),
        lane(static_cast<int>(threadIdx.x) % tiles.lanes),
        row(static_cast<int>(threadIdx.x) / tiles.lanes),
        depth(tiles.depth()),
        channels(view.channels),
        plane(view.plane) {
    const std::int64_t begin = tile * tiles.tile;
    const std::int64_t behind = view.values() - begin;
    left = static_cast<int>(behind < tiles.tile ? behind : tiles.tile);
    channel = L == NormLayout::kPlanes ? band : band * tiles.band + lane * V;
    if (channel >= channels) left = 0;
    if constexpr (L == NormLayout::kPlanes) {
      const std::int64_t sample = plane == 0 ? 0 : begin / plane;
      rest = begin - sample * plane;
      first = (sample * channels + channel) * plane;
    } else {
      first = begin * channels + channel;
    }
  }

  /// Of access i of this thread: whether there is one, and its first element.
  __device__ bool has(int i) const { return offset(i) < left; }
  __device__ std::int64_t at(int i) const {
    if constexpr (L == NormLayout::kRows) return first + offset(i) * channels;
    std::int64_t value = rest + offset(i);  // from the plane on that holds the tile's first value
    if (value < plane) return first + value;
    // A plane that ends within the tile: what is left is below 2^31.
    value -= plane;
    const auto small = static_cast<unsigned>(value);
    const unsigned planes = value < plane ? 0 : small / static_cast<unsigned>(plane);
    const std::int64_t inside = small - planes * static_cast<unsigned>(plane);
    return first + (std::int64_t{planes} + 1) * channels * plane + inside;
  }

  /// Values of the tile before access i, over all threads of one lane.
  __device__ std::int64_t offset(int i) const {
    const std::int64_t access = std::int64_t{i} * depth + row;
    return L == NormLayout::kPlanes ? access * V : access;
  }

  std::int64_t tile, band;
  int lane, row, depth, left;
  std::int64_t channel, channels, plane, first, rest = 0;
};

/// A mean as two numbers, for one of float loses what a small deviation beside it needs.
template <class Wide>
struct Centre {
  Wide high = 0, low = 0;
  __device__ static Centre of(double mean) {
    const Wide high = static_cast<Wide>(mean);
    return {high, static_cast<Wide>(mean - static_cast<double>(high))};
  }
  __device__ Wide away(Wide x) const { return (x - high) - low; }
};

__device__ inline double read_channel(const PerChannel& numbers, std::int64_t channel,
                                      double absent) {
  if (numbers.data == nullptr) return absent;
  return with_kind(numbers.kind, [&](auto kind) -> double {
    constexpr ScalarKind K = decltype(kind)::value;
    return Scalar<K>::widen(load_elements<K, 1>(numbers.data, channel).bits[0]);
  });
}

__device__ inline void write_channel(const PerChannel& numbers, std::int64_t channel,
                                     double value) {
  if (numbers.data == nullptr) return;
  with_kind(numbers.kind, [&](auto kind) {
    constexpr ScalarKind K = decltype(kind)::value;
    using Wide = typename Scalar<K>::Wide;
    store_elements<K, 1>(numbers.data, channel, {{Scalar<K>::narrow(static_cast<Wide>(value))}});
  });
}

/// Whether all ranks gave the same id: W times the sum of squares is the square of the sum.
__device__ inline bool are_ids_equal(const double* records, const RecordForm& form,
                                     std::int64_t items) {
  if (form.is_summed) {
    const double sum = records[items - 2], squares = records[items - 1];
    return form.ranks * squares == sum * sum;
  }
  for (int rank = 0; rank < form.ranks; ++rank) {
    if (records[(rank + 1) * items - 1] != form.id) return false;
  }
  return true;
}

/// Calls `use(kind, vector)`, both integral constants, with what the kernels of a call are made of.
template <class Use>
int with_access(ScalarKind kind, int vector, const Use& use) {
  return with_kind(kind, [&](auto k) {
    constexpr int kWhole = kVector<decltype(k)::value>;
    return vector > 1 ? use(k, std::integral_constant<int, kWhole>())
                      : use(k, std::integral_constant<int, 1>());
  });
}

}  // namespace ddpscope::cuda
