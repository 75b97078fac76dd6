#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "ops/batch_norm/cuda/launch.h"

/// Which block and thread reads what. Follows from the shape alone, never from the device, so that
/// sums are merged in one order everywhere.
namespace ddpscope::cuda {

inline constexpr int kBlockThreads = 256;
/// Values of a channel that a thread adds up as they are, of planes up to an eighth more; the long
/// run of very small and large tensors.
inline constexpr int kLaneValues = 64, kLongRun = 128;
/// Of threads beside each other: 128 bytes of a row where an access has 16.
template <int V>
inline constexpr int kMostLanes = V > 1 ? 8 : 32;

/// What one access of a thread holds.
enum class Access : std::uint8_t {
  kPlanes,      ///< values of one plane
  kPartPlanes,  ///< likewise, and at the ends of a plane some of its neighbours
  kJoined,      ///< values of adjacent planes, which are read as one
  kRows,        ///< one value of each of adjacent channels
};

/// A block reads `tile` accesses per band: of a channel, if planes, or of some adjacent ones.
/// `lanes()` threads lie beside each other over channels, each with `vector` of them if rows; the
/// others below each other over values.
struct NormTiles {
  Access access = Access::kPlanes;
  int vector = 1;  // elements of one access
  int lane_bits = 0;
  int lane_values = kLaneValues;  // of each channel, per thread
  std::int64_t accesses = 0;      // of a band, over all tiles
  // If planes: accesses of one, and over how many planes, and accesses more, a thread steps.
  std::int64_t of_plane = 1;
  int plane_step = 0, rest_step = 0;
  std::int64_t tile = 0;
  std::int64_t tiles = 1;
  std::int64_t band = 1;  // channels
  std::int64_t bands = 1;
  // Tiles are merged by groups, and these by the last block of a band.
  std::int64_t group = 1;  // tiles
  std::int64_t groups = 1;

  constexpr int lanes() const { return 1 << lane_bits; }
  constexpr int depth() const { return kBlockThreads >> lane_bits; }
  constexpr std::int64_t blocks() const { return tiles * bands; }
  /// Partial results of each band.
  constexpr std::int64_t partials() const { return tiles + (groups > 1 ? groups : 0); }
  constexpr std::int64_t tickets() const { return bands * (1 + groups); }
};

constexpr std::int64_t parts_of(std::int64_t whole, std::int64_t part) {
  return (whole + part - 1) / part;
}

inline constexpr std::int64_t kManyBlocks = 256;       // so many fill a device
inline constexpr std::int64_t kVeryManyBlocks = 1536;  // and so many some times over

/// Blocks where each thread has so many accesses per band.
constexpr std::int64_t blocks_of(const NormTiles& tiles, int accesses) {
  return parts_of(tiles.accesses, std::int64_t{tiles.depth()} * accesses) * tiles.bands;
}

/// At least one tile, and equal ones.
inline void cut_equally(NormTiles& tiles, std::int64_t most) {
  const auto at_least_one = [](std::int64_t n) { return std::max<std::int64_t>(n, 1); };
  tiles.tile = at_least_one(parts_of(tiles.accesses, at_least_one(parts_of(tiles.accesses, most))));
  tiles.tiles = at_least_one(parts_of(tiles.accesses, tiles.tile));
}

/// Of a pass that sums. Fewer values per thread where whole runs would leave most of a device
/// without work.
inline void cut_for_sums(NormTiles& tiles, int least) {
  const bool is_rows = tiles.access == Access::kRows;
  const auto accesses_of = [&](int values) { return is_rows ? values : values / tiles.vector; };
  int& values = tiles.lane_values;
  if (blocks_of(tiles, accesses_of(kLongRun)) >= kVeryManyBlocks) values = kLongRun;
  while (values > least && blocks_of(tiles, accesses_of(values)) < kManyBlocks) values /= 2;
  const std::int64_t run = std::int64_t{tiles.depth()} * accesses_of(values);
  if (is_rows) {
    tiles.tile = run;
    tiles.tiles = std::max<std::int64_t>(parts_of(tiles.accesses, run), 1);
  } else {  // rather runs that are a little longer than some more
    cut_equally(tiles, run + run / 8);
  }
  // One block is enough while its threads have few tiles of a channel each.
  const std::int64_t threads = kBlockThreads / tiles.band;  // of a channel
  tiles.group = tiles.tiles;
  if (tiles.tiles > 8 * threads) {
    tiles.group = static_cast<std::int64_t>(std::ceil(std::sqrt(tiles.tiles)));
  }
  tiles.groups = parts_of(tiles.tiles, tiles.group);
}

/// Of a pass that makes elements: short tiles where they are many, for the last blocks then end
/// together, else so few that all run at once.
inline void cut_for_map(NormTiles& tiles) {
  constexpr std::int64_t kManyShort = 2048;
  const int unit = tiles.vector > 1 ? 1 : 8, few = 4 * unit, many = 16 * unit;  // accesses
  int accesses = blocks_of(tiles, few) > kManyShort ? few : many;
  while (accesses > 2 * unit && blocks_of(tiles, accesses) < kManyBlocks) accesses /= 2;
  cut_equally(tiles, std::int64_t{tiles.depth()} * accesses);
}

/// Where the accesses of a plane are `of_plane`.
inline void lay_planes(const NormView& view, std::int64_t of_plane, NormTiles& tiles) {
  tiles.of_plane = of_plane;
  tiles.accesses = view.batch * of_plane;
  if (of_plane > 0) {
    tiles.plane_step = static_cast<int>(tiles.depth() / of_plane);
    tiles.rest_step = static_cast<int>(tiles.depth() % of_plane);
  }
  tiles.bands = std::max<std::int64_t>(parts_of(view.channels, tiles.band), 1);
}

/// `shares`: where there are many small channels, a block may read some at once.
inline NormTiles planes_of(const NormView& view, bool is_aligned, bool shares) {
  NormTiles tiles;
  tiles.vector = is_aligned ? 16 / bytes_of(view.kind) : 1;
  const bool is_whole = view.plane % tiles.vector == 0;
  tiles.access = is_whole ? Access::kPlanes : Access::kPartPlanes;
  // A plane that begins anywhere reaches into so many accesses.
  const std::int64_t of_plane =
      is_whole ? view.plane / tiles.vector : (view.plane + tiles.vector - 2) / tiles.vector + 1;
  constexpr int kMostBits = 3;
  const std::int64_t values = view.batch * of_plane * tiles.vector;
  while (shares && tiles.lane_bits < kMostBits &&
         values <= std::int64_t{tiles.depth() / 2} * kLongRun &&
         view.channels >> (tiles.lane_bits + 1) >= kManyBlocks) {
    ++tiles.lane_bits;
    tiles.lane_values = kLongRun;
  }
  tiles.band = tiles.lanes();
  lay_planes(view, of_plane, tiles);
  return tiles;
}

inline NormTiles rows_of(const NormView& view, bool is_aligned) {
  const int whole = 16 / bytes_of(view.kind);
  NormTiles tiles;
  tiles.access = Access::kRows;
  tiles.vector = is_aligned && view.channels % whole == 0 ? whole : 1;
  const std::int64_t wanted = parts_of(view.channels, tiles.vector);
  const int most_lanes = tiles.vector > 1 ? kMostLanes<2> : kMostLanes<1>;
  while (tiles.lanes() < most_lanes && tiles.lanes() < wanted) ++tiles.lane_bits;
  tiles.accesses = view.values();
  tiles.band = std::int64_t{tiles.lanes()} * tiles.vector;
  tiles.bands = std::max<std::int64_t>(parts_of(view.channels, tiles.band), 1);
  return tiles;
}

/// `is_aligned`: all tensors begin at a multiple of 16 bytes. Has at least one tile and one band,
/// for also an empty rank has a record.
inline NormTiles tiles_of(const NormView& view, bool is_aligned) {
  const bool is_planes = view.layout == NormLayout::kPlanes;
  NormTiles tiles =
      is_planes ? planes_of(view, is_aligned, /*shares=*/true) : rows_of(view, is_aligned);
  cut_for_sums(tiles, /*least=*/is_planes ? 16 : 4);
  return tiles;
}

/// Planes that are no whole number of accesses are joined with their neighbours where that makes
/// one; those that cannot be are read in part.
inline NormTiles joined_planes_of(const NormView& view, bool is_aligned) {
  NormTiles tiles = planes_of(view, is_aligned, /*shares=*/false);
  constexpr std::int64_t kLargest = std::int64_t{1} << 24;  // what is joined fits in an int
  const bool is_fit = view.plane >= tiles.vector && view.plane <= kLargest;
  const std::int64_t joined = tiles.vector / std::gcd<std::int64_t>(view.plane, tiles.vector);
  if (tiles.access != Access::kPartPlanes || !is_fit || view.channels % joined != 0) return tiles;
  tiles = {.access = Access::kJoined, .vector = tiles.vector, .band = joined};
  lay_planes(view, joined * view.plane / tiles.vector, tiles);
  return tiles;
}

/// Of a pass that makes elements.
inline NormTiles map_tiles_of(const NormView& view, bool is_aligned) {
  const bool is_planes = view.layout == NormLayout::kPlanes;
  NormTiles tiles = is_planes ? joined_planes_of(view, is_aligned) : rows_of(view, is_aligned);
  cut_for_map(tiles);
  return tiles;
}

}  // namespace ddpscope::cuda
