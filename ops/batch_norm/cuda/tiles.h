#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/batch_norm/cuda/launch.h"

/// Which block and thread reads what. Follows from the shape alone, never from the device, so that
/// sums are merged in one order everywhere.
namespace ddpscope::cuda {

inline constexpr int kBlockThreads = 256;
inline constexpr int kLaneValues = 64;  // at most so many of a channel in one run of a lane
inline constexpr int kMostLanes = 32;   // of a row of threads beside each other

/// A block reads `tile` values per channel of a band of adjacent channels; of planes a band is one
/// channel. `lanes` threads lie beside each other over channels, each with `vector` of them; the
/// others below each other over values.
struct NormTiles {
  int vector = 1;  // elements of one access
  int lanes = 1;
  int lane_values = kLaneValues;  // of each channel, per thread
  std::int64_t tile = 0;
  std::int64_t tiles = 1;
  std::int64_t band = 1;  // channels
  std::int64_t bands = 1;

  constexpr int depth() const { return kBlockThreads / lanes; }
  constexpr std::int64_t blocks() const { return tiles * bands; }
};

constexpr std::int64_t parts_of(std::int64_t whole, std::int64_t part) {
  return (whole + part - 1) / part;
}

/// `is_aligned`: all tensors begin at a multiple of 16 bytes. Has at least one tile and one band,
/// for also an empty rank has a record.
constexpr NormTiles tiles_of(const NormView& view, bool is_aligned) {
  const int whole = 16 / bytes_of(view.kind);
  NormTiles tiles;
  if (view.layout == NormLayout::kPlanes) {
    tiles.vector = is_aligned && view.plane % whole == 0 ? whole : 1;
    tiles.bands = std::max<std::int64_t>(view.channels, 1);
    tiles.tile = std::int64_t{kBlockThreads} * kLaneValues;
    tiles.tiles = std::max<std::int64_t>(parts_of(view.values(), tiles.tile), 1);
    return tiles;
  }
  tiles.vector = is_aligned && view.channels % whole == 0 ? whole : 1;
  const std::int64_t wanted = parts_of(view.channels, tiles.vector);
  while (tiles.lanes < kMostLanes && tiles.lanes < wanted) tiles.lanes *= 2;
  tiles.band = std::int64_t{tiles.lanes} * tiles.vector;
  tiles.bands = std::max<std::int64_t>(parts_of(view.channels, tiles.band), 1);
  // Fewer values per thread where whole runs would leave most of a device without work.
  constexpr std::int64_t kManyBlocks = 512;
  const auto blocks = [&](int values) {
    return parts_of(view.values(), std::int64_t{tiles.depth()} * values) * tiles.bands;
  };
  while (tiles.lane_values > 16 && blocks(tiles.lane_values) < kManyBlocks) tiles.lane_values /= 2;
  tiles.tile = std::int64_t{tiles.depth()} * tiles.lane_values;
  tiles.tiles = std::max<std::int64_t>(parts_of(view.values(), tiles.tile), 1);
  return tiles;
}

}  // namespace ddpscope::cuda
