#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "ops/clip/cuda/launch.h"

/// Which block of a launch reads what. Follows from the list alone, never from the device, so that
/// sums are added in one order everywhere.
namespace ddpscope::cuda {

inline constexpr std::size_t kRowsOfArguments = 1344;  // of a launch, where they are 32 KB
inline constexpr std::int64_t kSmallRow = 2048;  // at most so many elements: one warp reads it
inline constexpr int kRowsPerBlock = 8;          // of small rows, as many as a block has warps

/// Elements that one block reads, where the list has so many, as a power of two: fewer parts to
/// merge of a long list.
inline int chunk_bits_of(std::int64_t all_elements) {
  int bits = 14;
  while (bits < 16 && all_elements >> bits > 8192) ++bits;
  return bits;
}

inline std::int64_t elements_of(std::span<const ClipRow> rows) {
  std::int64_t elements = 0;
  for (const ClipRow& row : rows) elements += row.elements;
  return elements;
}

/// Gives each row its first block: small rows that follow each other share one.
inline Blocks assign_blocks(std::span<ClipRow> rows, int chunk_bits) {
  Blocks blocks;
  const std::int64_t chunk = std::int64_t{1} << chunk_bits;
  int in_block = 0;  // small rows of the block before this one
  for (ClipRow& row : rows) {
    const bool is_small = row.elements <= kSmallRow;
    const bool joins = is_small && in_block > 0 && in_block < kRowsPerBlock;
    row.first_block = joins ? blocks.all - 1 : blocks.all;
    in_block = is_small ? (joins ? in_block + 1 : 1) : 0;
    if (joins) continue;
    blocks.all += is_small ? 1 : static_cast<int>((row.elements + chunk - 1) >> chunk_bits);
    ++blocks.last;
  }
  return blocks;
}

/// What a listing has beside the rows: `row_of_block`, then `end_of_block`. The rows have their
/// first blocks.
inline std::vector<std::int32_t> maps_of_blocks(std::span<const ClipRow> rows, int blocks) {
  const auto number = static_cast<std::size_t>(blocks);
  std::vector<std::int32_t> maps(2 * number);
  std::size_t row = 0;
  std::int32_t end = 0;
  for (std::size_t block = 0; block < number; ++block) {
    const std::size_t before = row;
    while (row + 1 < rows.size() && rows[row + 1].first_block <= static_cast<int>(block)) ++row;
    if (block > 0 && row != before) ++end;
    maps[block] = static_cast<std::int32_t>(row);
    maps[number + block] = end;
  }
  return maps;
}

/// Gives each row its first block. The bytes of the listing, which a device is to hold.
inline std::vector<std::byte> pack_listing(std::span<ClipRow> rows, ClipListing& listing) {
  listing.chunk_bits = chunk_bits_of(elements_of(rows));
  listing.blocks = assign_blocks(rows, listing.chunk_bits);
  listing.count = static_cast<int>(rows.size());
  const auto maps = maps_of_blocks(rows, listing.blocks.all);
  const auto of_rows = std::as_bytes(rows), of_maps = std::as_bytes(std::span(maps));
  std::vector<std::byte> bytes(of_rows.begin(), of_rows.end());
  bytes.insert(bytes.end(), of_maps.begin(), of_maps.end());
  return bytes;
}

/// Where the device holds them.
inline void place_listing(const void* bytes, ClipListing& listing) {
  listing.rows = static_cast<const ClipRow*>(bytes);
  listing.row_of_block = reinterpret_cast<const std::int32_t*>(listing.rows + listing.count);
  listing.end_of_block = listing.row_of_block + listing.blocks.all;
}

}  // namespace ddpscope::cuda
