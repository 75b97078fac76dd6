#pragma once

#include <type_traits>

#include "ops/clip/cuda/blocks.h"
#include "ops/device/scalar.cuh"

namespace ddpscope::cuda {

static_assert(kRowsPerBlock == kWarps);

// Rows in one launch: arguments of 32 KB, which drivers take since CUDA 12.1, else of 4 KB.
#if CUDART_VERSION >= 12010
inline constexpr int kRows = 1344;
inline constexpr std::size_t kArgumentBytes = 32764;
#else
inline constexpr int kRows = 150;
inline constexpr std::size_t kArgumentBytes = 4096;
#endif

struct RowTable {
  ClipRow rows[kRows];
  int count;
  int blocks;
  std::int64_t chunk;
};

/// The rows [first, first + count) of a list.
inline RowTable table_of(std::span<const ClipRow> list, std::size_t first, std::int64_t chunk) {
  RowTable table = {};
  table.chunk = chunk;
  const auto rows = list.subspan(first, std::min<std::size_t>(kRows, list.size() - first));
  table.count = static_cast<int>(rows.size());
  std::copy(rows.begin(), rows.end(), table.rows);
  table.blocks =
      static_cast<int>(assign_blocks({table.rows, static_cast<std::size_t>(table.count)}, chunk));
  return table;
}

/// What a thread of a block works on: lane `lane` of `lanes` that share the elements.
struct Piece {
  int row = -1;  // none: this warp has nothing to do
  bool is_small = false;
  std::int64_t begin = 0, elements = 0;
  int lane = 0, lanes = 1;
};

__device__ inline int last_row_from(const RowTable& table, int block) {
  int begin = 0, end = table.count;
  while (end - begin > 1) {
    const int middle = (begin + end) / 2;
    (table.rows[middle].first_block <= block ? begin : end) = middle;
  }
  return begin;
}

__device__ inline Piece piece_of(const RowTable& table, int block) {
  const int last = last_row_from(table, block);
  const int thread = static_cast<int>(threadIdx.x);
  if (table.rows[last].elements > kSmallRow) {
    const std::int64_t begin = (block - table.rows[last].first_block) * table.chunk;
    const std::int64_t left = table.rows[last].elements - begin;
    return {last, false, begin, left < table.chunk ? left : table.chunk, thread, kThreads};
  }
  int first = last;
  while (first > 0 && table.rows[first - 1].first_block == block &&
         table.rows[first - 1].elements <= kSmallRow) {
    --first;
  }
  const int row = first + thread / kWarp;
  if (row > last || row >= table.count) return {};
  return {row, true, 0, table.rows[row].elements, thread % kWarp, kWarp};
}

/// Values of a kind that lie from `data` on, of which a lane takes its share: single ones up to a
/// multiple of 16 bytes, vectors, and single ones at the end.
struct Share {
  template <ScalarKind K>
  __device__ Share(std::integral_constant<ScalarKind, K>, const void* data, std::int64_t values)
      : count(values) {
    constexpr int kBytes = sizeof(typename Scalar<K>::Bits);
    const auto past = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(data) % 16);
    head = past == 0 ? 0 : (16 - past) / kBytes;
    if (head > count) head = count;
    vectors = (count - head) / kVector<K>;
    tail = head + vectors * kVector<K>;
  }
  std::int64_t count, head, vectors, tail;
};

}  // namespace ddpscope::cuda
