#pragma once

#include <type_traits>

#include "ops/clip/cuda/blocks.h"
#include "ops/device/scalar.cuh"

namespace ddpscope::cuda {

static_assert(kRowsPerBlock == kWarps);

// Rows in one launch: arguments of 32 KB, which drivers take since CUDA 12.1, else of 4 KB.
#if CUDART_VERSION >= 12010
inline constexpr int kRows = kRowsOfArguments;
inline constexpr std::size_t kArgumentBytes = 32764;
#else
inline constexpr int kRows = 150;
inline constexpr std::size_t kArgumentBytes = 4096;
#endif

struct RowTable {
  static constexpr bool kKeepsEnds = false;
  ClipRow rows[kRows];
  int count;
  Blocks blocks;
  int chunk_bits;

  /// Each look is at some rows at once, for one takes long.
  __device__ int last_row_of(int block) const {
    constexpr int kParts = 8;
    int begin = 0, end = count;
    while (end - begin > 1) {
      const int part = (end - begin + kParts - 1) / kParts;
      int parts = 0;
#pragma unroll
      for (int i = 1; i < kParts; ++i) {
        const int row = begin + i * part;
        if (row < end && rows[row].first_block <= block) ++parts;
      }
      begin += parts * part;
      if (begin + part < end) end = begin + part;
    }
    return begin;
  }
  /// Of small rows that share a block, of which `last` is the last.
  __device__ int first_row_of(int block, int last) const {
    while (last > 0 && rows[last - 1].first_block == block) --last;
    return last;
  }
};

/// Of so many rows the last block would read for long: it reads what those of before it have
/// merged.
struct ListedRows : ClipListing {
  static constexpr bool kKeepsEnds = true;
  __device__ int last_row_of(int block) const { return row_of_block[block]; }
  __device__ int first_row_of(int block, int) const {
    return block == 0 ? 0 : row_of_block[block - 1] + 1;
  }
};

/// The rows [first, first + count) of a list.
inline void fill_table(std::span<const ClipRow> list, std::size_t first, int chunk_bits,
                       RowTable& table) {
  const auto rows = list.subspan(first, std::min<std::size_t>(kRows, list.size() - first));
  std::copy(rows.begin(), rows.end(), table.rows);
  table.count = static_cast<int>(rows.size());
  table.chunk_bits = chunk_bits;
  table.blocks = assign_blocks({table.rows, static_cast<std::size_t>(table.count)}, chunk_bits);
}

/// What a thread of a block works on: lane `lane` of `lanes` that share the elements.
struct Piece {
  int row = -1;           // none: this warp has nothing to do
  bool is_small = false;  // the same for all threads of a block
  std::int64_t begin = 0;
  int elements = 0;
  int lane = 0, lanes = 1;
  int blocks = 1;  // of the row
};

inline constexpr int kLine = 128;  // bytes

/// Elements of a row before the first whole line.
__device__ inline int before_line(const ClipRow& row) {
  const auto past = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(row.data)) % kLine;
  const unsigned bytes = bytes_of(row.kind) * (row.is_complex ? 2 : 1);
  return past == 0 ? 0 : static_cast<int>((kLine - past) / bytes);
}

/// `at_lines`: all pieces but the first of a row begin at a whole line, so that a warp touches no
/// parts of lines. Not for sums: their bits must not follow from where a row lies.
template <class Table>
__device__ Piece piece_of(const Table& table, int block, bool at_lines) {
  const int thread = static_cast<int>(threadIdx.x);
  if (table.count == 0) return {.is_small = true};
  const int last = table.last_row_of(block);
  const std::int64_t elements = table.rows[last].elements;
  if (elements > kSmallRow) {
    const std::int64_t chunk = std::int64_t{1} << table.chunk_bits;
    const int number = block - table.rows[last].first_block;
    const std::int64_t head = at_lines ? before_line(table.rows[last]) : 0;
    const std::int64_t begin = number == 0 ? 0 : head + number * chunk;
    const std::int64_t end = head + (number + 1) * chunk;
    const std::int64_t here = (end < elements ? end : elements) - begin;
    const auto blocks = static_cast<int>((elements + chunk - 1) >> table.chunk_bits);
    return {last, false, begin, here > 0 ? static_cast<int>(here) : 0, thread, kThreads, blocks};
  }
  const int row = table.first_row_of(block, last) + thread / kWarp;
  if (row > last) return {.is_small = true};
  return {row, true, 0, static_cast<int>(table.rows[row].elements), thread % kWarp, kWarp};
}

/// Values of a kind that lie from `data` on, of which a lane takes its share: single ones up to a
/// multiple of `unit` bytes, vectors, and single ones at the end.
struct Share {
  template <ScalarKind K>
  __device__ Share(std::integral_constant<ScalarKind, K>, const void* data, int values,
                   int unit = 16)
      : count(values) {
    constexpr int kBytes = sizeof(typename Scalar<K>::Bits);
    const auto past = static_cast<int>(reinterpret_cast<std::uintptr_t>(data) &
                                       (static_cast<unsigned>(unit) - 1));
    head = past == 0 ? 0 : (unit - past) / kBytes;
    if (head > count) head = count;
    vectors = (count - head) / kVector<K>;
    tail = head + vectors * kVector<K>;
  }
  int count, head, vectors, tail;
};

}  // namespace ddpscope::cuda
