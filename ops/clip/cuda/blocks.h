#pragma once

#include <algorithm>

#include "ops/clip/cuda/launch.h"

/// Which block of a launch reads what. Follows from the list alone, never from the device, so that
/// sums are added in one order everywhere.
namespace ddpscope::cuda {

inline constexpr std::int64_t kSmallRow = 2048;  // at most so many elements: one warp reads it
inline constexpr int kRowsPerBlock = 8;          // of small rows, as many as a block has warps
inline constexpr std::int64_t kFewElements = std::int64_t{1} << 26;

/// Elements that one block reads, where the list has so many.
inline std::int64_t chunk_of(std::int64_t all_elements) {
  return all_elements <= kFewElements ? 16384 : 65536;
}

inline std::int64_t elements_of(std::span<const ClipRow> rows) {
  std::int64_t elements = 0;
  for (const ClipRow& row : rows) elements += row.elements;
  return elements;
}

/// Gives each row its first block: small rows that follow each other share one. The blocks of all.
inline std::int64_t assign_blocks(std::span<ClipRow> rows, std::int64_t chunk) {
  std::int64_t blocks = 0;
  int in_block = 0;  // small rows of the block before this one
  for (ClipRow& row : rows) {
    if (row.elements > kSmallRow) {
      row.first_block = static_cast<std::int32_t>(blocks);
      blocks += (row.elements + chunk - 1) / chunk;
      in_block = 0;
    } else {
      if (in_block == 0 || in_block == kRowsPerBlock) {
        ++blocks;
        in_block = 0;
      }
      row.first_block = static_cast<std::int32_t>(blocks - 1);
      ++in_block;
    }
  }
  return blocks;
}

}  // namespace ddpscope::cuda
