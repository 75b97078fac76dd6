#pragma once

#include <type_traits>

#include "ops/batch_norm/cuda/tiles.h"
#include "ops/device/scalar.cuh"

namespace ddpscope::cuda {

static_assert(kBlockThreads == kThreads);

inline bool is_aligned(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
}

/// Where both are below 2^32, as nearly always, in a fifth of the time.
__device__ inline std::int64_t quotient_of(std::int64_t whole, std::int64_t part) {
  constexpr std::int64_t kEnd = std::int64_t{1} << 32;
  if (whole >= kEnd || part >= kEnd) return whole / part;
  return static_cast<unsigned>(whole) / static_cast<unsigned>(part);
}

/// Of a thread: its place among those of a channel, and the place of its channels in the band.
/// Threads of a warp read what lies beside each other.
template <Access A>
struct Seat {
  static constexpr int kThreadBits = 8;
  static_assert(kThreads == 1 << kThreadBits);
  int row, lane;

  __device__ static Seat of(int thread, int lane_bits) {
    const int row_bits = kThreadBits - lane_bits;
    if constexpr (A == Access::kRows) {
      return {thread >> lane_bits, thread & ((1 << lane_bits) - 1)};
    }
    return {thread & ((1 << row_bits) - 1), thread >> row_bits};
  }
  __device__ int thread(int lane_bits) const {
    if constexpr (A == Access::kRows) return (row << lane_bits) + lane;
    return (lane << (kThreadBits - lane_bits)) + row;
  }
};

/// The accesses of a thread, one after the other: each is of V elements that begin at a multiple of
/// V where V is not 1, and of which some may belong to other planes.
template <Access A, int V>
struct Spot {
  // Accesses of a plane: if of vectors, less than 2^32 fill any memory.
  using Inside = std::conditional_t<V == 1, std::int64_t, unsigned>;

  __device__ Spot(const NormView& view, const NormTiles& tiles, unsigned block)
      : tile(block / static_cast<unsigned>(tiles.bands)),
        band(block - static_cast<unsigned>(tile) * static_cast<unsigned>(tiles.bands)) {
    const auto seat = Seat<A>::of(static_cast<int>(threadIdx.x), tiles.lane_bits);
    lane = seat.lane;
    const std::int64_t first = tile * tiles.tile + seat.row;
    const std::int64_t behind = tiles.accesses - tile * tiles.tile;
    const auto here = static_cast<int>(behind < tiles.tile ? behind : tiles.tile);
    const int depth_bits = Seat<A>::kThreadBits - tiles.lane_bits;
    if (here > seat.row) left = 1 + ((here - seat.row - 1) >> depth_bits);
    channel = band * tiles.band + (A == Access::kRows ? lane * V : lane);
    if (channel >= view.channels) left = 0;
    if constexpr (A == Access::kRows) {
      begin = first * view.channels + channel;
      step = tiles.depth() * view.channels;
    } else {
      begin_planes(view, tiles, first);
    }
  }

  /// The first element.
  __device__ std::int64_t at() const {
    if constexpr (A != Access::kPartPlanes) return begin;
    return begin - static_cast<unsigned>(begin) % V + static_cast<std::int64_t>(inside) * V;
  }
  /// A bit for each of the V elements that are of this plane.
  __device__ unsigned valid() const {
    constexpr unsigned kAll = (1U << V) - 1;
    if constexpr (A != Access::kPartPlanes) return kAll;
    const unsigned before = static_cast<unsigned>(begin) % V;  // elements of others
    const std::int64_t behind = before + plane - static_cast<std::int64_t>(inside) * V;
    const unsigned from = inside == 0 ? before : 0;
    const unsigned to = behind >= V ? V : behind > 0 ? static_cast<unsigned>(behind) : 0;
    return ((1U << to) - 1) & ~((1U << from) - 1);
  }
  __device__ void next() {
    --left;
    begin += step;
    if constexpr (A == Access::kRows) return;
    inside += rest;
    if (inside < of_plane) return;
    inside -= of_plane;
    begin += wrap;
  }

  std::int64_t tile, band;
  int lane = 0, left = 0;  // accesses
  // Of kPartPlanes `begin` is that of the plane, of others that of the access.
  std::int64_t channel = 0, begin = 0, step = 0;
  Inside inside = 0;  // accesses of the plane before this one

 private:
  __device__ void begin_planes(const NormView& view, const NormTiles& tiles, std::int64_t first) {
    plane = view.plane;
    of_plane = static_cast<Inside>(tiles.of_plane);
    rest = static_cast<Inside>(tiles.rest_step);
    const std::int64_t sample = view.channels * plane;
    const std::int64_t samples = of_plane == 0 ? 0 : quotient_of(first, tiles.of_plane);
    inside = static_cast<Inside>(first - samples * tiles.of_plane);
    begin = samples * sample + channel * plane;
    step = tiles.plane_step * sample;
    wrap = sample;
    if constexpr (A == Access::kPartPlanes) return;
    begin += static_cast<std::int64_t>(inside) * V;
    step += tiles.rest_step * V;
    wrap -= tiles.of_plane * V;
  }

  Inside of_plane = 0, rest = 0;
  std::int64_t plane = 0, wrap = 0;
};

/// So many accesses at once, all under way before the first is waited for.
template <ScalarKind K, int V, int N, bool kReadsGradient>
struct Batch {
  static constexpr int kAccesses = N;
  Elements<K, V> x[N], dy[kReadsGradient ? N : 1];
  std::int64_t at[N];
  int inside[N];      // elements of the plane before it, where planes are joined
  unsigned valid[N];  // 0: none

  template <Access A, class Call>
  __device__ void load(const Call& call, Spot<A, V>& spot) {
    const std::int64_t elements = call.view.values() * call.view.channels;
#pragma unroll
    for (int k = 0; k < N; ++k) {
      valid[k] = 0;
      if (spot.left <= 0) continue;
      at[k] = spot.at();
      valid[k] = spot.valid();
      inside[k] = static_cast<int>(spot.inside) * V;
      spot.next();
      if (valid[k] == 0) continue;
      x[k] = load_valid<A>(call.x, k, elements);
      if constexpr (kReadsGradient) dy[k] = load_valid<A>(call.dy, k, elements);
    }
  }

 private:
  /// Of what is not valid anything.
  template <Access A>
  __device__ Elements<K, V> load_valid(const void* data, int k, std::int64_t elements) const {
    if constexpr (A == Access::kPartPlanes) {
      if (at[k] + V > elements) {  // the last access of all may be cut short
        Elements<K, V> cut = {};
#pragma unroll
        for (int j = 0; j < V; ++j) {
          if ((valid[k] >> j & 1) != 0) cut.bits[j] = load_elements<K, 1>(data, at[k] + j).bits[0];
        }
        return cut;
      }
    }
    return load_elements<K, V>(data, at[k]);
  }
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

/// Calls `use(kind, vector, access)`, integral constants, with what the kernels of a call are made
/// of; never with kJoined, unless the pass joins planes.
template <bool kJoins, class Use>
int with_access(ScalarKind kind, const NormTiles& tiles, const Use& use) {
  return with_kind(kind, [&](auto k) {
    using One = std::integral_constant<int, 1>;
    using Whole = std::integral_constant<int, kVector<decltype(k)::value>>;
    using Planes = std::integral_constant<Access, Access::kPlanes>;
    using PartPlanes = std::integral_constant<Access, Access::kPartPlanes>;
    using Rows = std::integral_constant<Access, Access::kRows>;
    if constexpr (kJoins) {
      using Joined = std::integral_constant<Access, Access::kJoined>;
      if (tiles.access == Access::kJoined) return use(k, Whole(), Joined());
    }
    if (tiles.access == Access::kPartPlanes) return use(k, Whole(), PartPlanes());
    if (tiles.access == Access::kPlanes) {
      return tiles.vector > 1 ? use(k, Whole(), Planes()) : use(k, One(), Planes());
    }
    return tiles.vector > 1 ? use(k, Whole(), Rows()) : use(k, One(), Rows());
  });
}

template <class Call>
struct PassArguments {
  Call call;
  NormTiles tiles;
};

/// Queues `kernel_of(kind, vector, access)`, which are as `with_access` gives them.
template <bool kJoins, class Call, class KernelOf>
int launch_pass(const PassArguments<Call>& arguments, CUstream_st* stream,
                const KernelOf& kernel_of) noexcept {
  const auto queue = [&](auto kind, auto vector, auto access) {
    const Grid grid = {arguments.tiles.blocks(), stream};
    return launch(kernel_of(kind, vector, access), grid, arguments);
  };
  return with_access<kJoins>(arguments.call.view.kind, arguments.tiles, queue);
}

}  // namespace ddpscope::cuda
