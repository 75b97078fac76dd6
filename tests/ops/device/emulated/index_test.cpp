// Which thread reads what: asked of the kernels' own functions, without memory to read.
#include <random>
#include <vector>

#include "ops/batch_norm/cuda/reading.cuh"
#include "ops/clip/cuda/rows.cuh"
#include "tests/support/catch.h"

namespace ddpscope::cuda {
namespace {

template <Access A, int V>
void count_reads(const NormView& view, const NormTiles& tiles, std::vector<int>& reads) {
  for (unsigned block = 0; block < tiles.blocks(); ++block) {
    for (emulated::thread.x = 0; emulated::thread.x < kThreads; ++emulated::thread.x) {
      for (Spot<A, V> spot(view, tiles, block); spot.left > 0; spot.next()) {
        CHECK((V == 1 || spot.at() % V == 0));
        for (int j = 0; j < V; ++j) {
          if ((spot.valid() >> j & 1) != 0) ++reads.at(static_cast<std::size_t>(spot.at() + j));
        }
      }
    }
  }
}

void check_reads(const NormView& view) {
  const auto elements = static_cast<std::size_t>(view.values() * view.channels);
  for (const bool is_aligned : {false, true}) {
    for (const NormTiles& tiles : {tiles_of(view, is_aligned), map_tiles_of(view, is_aligned)}) {
      CAPTURE(view.batch, view.channels, view.plane, is_aligned, static_cast<int>(tiles.access));
      std::vector<int> reads(elements);
      with_access<true>(view.kind, tiles, [&](auto, auto vector, auto access) {
        count_reads<decltype(access)::value, decltype(vector)::value>(view, tiles, reads);
        return 0;
      });
      CHECK(reads == std::vector<int>(elements, 1));
    }
  }
}

NormView view_of(NormLayout layout, std::int64_t batch, std::int64_t channels, std::int64_t plane) {
  return {.kind = ScalarKind::kHalf,
          .layout = layout,
          .batch = batch,
          .channels = channels,
          .plane = plane};
}

}  // namespace

TEST_CASE("Each element of a batch is read once, by one thread of one block") {
  for (const std::int64_t plane : {1, 7, 8, 49, 196, 16'384, 16'385, 50'000}) {
    for (const std::int64_t channels : {1, 3, 8, 33, 64, 264, 1030}) {
      if (plane * channels > 600'000) continue;
      const std::int64_t batch = plane < 50 ? 37 : 3;
      check_reads(view_of(NormLayout::kPlanes, batch, channels, plane));
      check_reads(view_of(NormLayout::kRows, batch, channels, plane));
    }
  }
}

TEST_CASE("Elements beyond 2^31 are where 64-bit arithmetic has them") {
  std::mt19937_64 random(1);
  for (const std::int64_t plane : {std::int64_t{1} << 31, (std::int64_t{3} << 30) + 8,
                                   std::int64_t{9'000'000}, std::int64_t{48}}) {
    const NormView view = view_of(NormLayout::kPlanes, (std::int64_t{5} << 32) / plane, 24, plane);
    const NormTiles tiles = tiles_of(view, true);
    for (int n = 0; n < 1000; ++n) {
      const auto block = static_cast<unsigned>(random() % static_cast<unsigned>(tiles.blocks()));
      emulated::thread.x = static_cast<unsigned>(random() % kThreads);
      Spot<Access::kPlanes, 8> spot(view, tiles, block);
      std::int64_t access = spot.tile * tiles.tile + emulated::thread.x;
      for (; spot.left > 0; spot.next(), access += kThreads) {
        const std::int64_t value = 8 * access;
        CHECK(spot.at() == (value / plane * view.channels + spot.channel) * plane + value % plane);
      }
    }
  }
}

TEST_CASE("Planes that begin anywhere are read from multiples of 16 bytes") {
  const NormView view = view_of(NormLayout::kPlanes, 3, 2, (std::int64_t{1} << 31) + 5);
  const NormTiles tiles = tiles_of(view, true);
  emulated::thread.x = 0;
  const Spot<Access::kPartPlanes, 8> first(view, tiles, 1);  // of the second channel
  CHECK(first.at() == std::int64_t{1} << 31);
  CHECK(first.valid() == 0b1110'0000);
}

TEST_CASE("A band fits a block, and tiles follow from the shape") {
  for (const std::int64_t channels : {1, 2, 3, 31, 64, 100, 2048, 100'000}) {
    for (const std::int64_t batch : {0, 1, 4096, 10'000'000}) {
      const NormView view = view_of(NormLayout::kRows, batch, channels, 1);
      const NormTiles tiles = tiles_of(view, true);
      CHECK(tiles.band <= kThreads);
      CHECK(kThreads % tiles.band == 0);
      CHECK(tiles.bands * tiles.band >= channels);
      CHECK(tiles.tile * tiles.tiles >= batch);
      CHECK(tiles.group * tiles.groups >= tiles.tiles);
      CHECK(tiles.group * (tiles.groups - 1) < tiles.tiles);
      CHECK(tiles.blocks() < (std::int64_t{1} << 31));
    }
  }
}

TEST_CASE("Tiles of planes are equal, and runs a little longer rather than one more") {
  // 6,272 accesses per channel, of which a block would read 2,048.
  const NormTiles equal = tiles_of(view_of(NormLayout::kPlanes, 64, 512, 784), true);
  CHECK(equal.tiles == 3);
  CHECK(equal.tile == 2091);
  // 8,324 accesses are four runs and 132 more.
  const NormTiles longer = tiles_of(view_of(NormLayout::kPlanes, 4, 256, 16'641), true);
  CHECK(longer.tiles == 4);
  CHECK(longer.tile == 2081);
}

TEST_CASE("A pass that makes elements has short tiles of large tensors, and long ones of others") {
  for (const NormLayout layout : {NormLayout::kPlanes, NormLayout::kRows}) {
    const NormTiles large = map_tiles_of(view_of(layout, 64, 64, 12'544), true);
    CHECK(large.tile <= 4 * large.depth());
    const NormTiles middle = map_tiles_of(view_of(layout, 64, 64, 3136), true);
    CHECK(middle.blocks() >= kManyBlocks);
    CHECK(middle.blocks() <= 512);
    const NormTiles small = map_tiles_of(view_of(layout, 4, 64, 1), true);
    CHECK(small.tile <= 2 * small.depth());
  }
}

TEST_CASE("Each element of a list is read once, small gradients by one warp each") {
  std::mt19937 random(2);
  std::vector<ClipRow> rows;
  for (int i = 0; i < 400; ++i) {
    const int size = i % 5 == 0 ? 70'000 : i % 7 == 0 ? 2049 : i % 3 == 0 ? 0 : 2048;
    const std::uintptr_t address = 4096 + 4 * (random() % 64);  // nothing is read there
    rows.push_back({.data = reinterpret_cast<void*>(address),
                    .elements = static_cast<std::int64_t>(random() % (size + 1U))});
  }
  const bool at_lines = GENERATE(false, true);
  RowTable table;
  fill_table(rows, 0, /*chunk_bits=*/14, table);
  std::vector<std::vector<int>> reads;
  for (const ClipRow& row : rows) reads.emplace_back(static_cast<std::size_t>(row.elements));
  std::vector<int> warps_of_row(rows.size());
  for (int block = 0; block < table.blocks.all; ++block) {
    for (emulated::thread.x = 0; emulated::thread.x < kThreads; ++emulated::thread.x) {
      const Piece piece = piece_of(table, block, at_lines);
      if (piece.row < 0) continue;
      const auto row = static_cast<std::size_t>(piece.row);
      CHECK(piece.is_small == (rows[row].elements <= kSmallRow));
      warps_of_row[row] += piece.is_small && piece.lane == 0;
      const auto begin = reinterpret_cast<std::uintptr_t>(rows[row].data) +
                         4 * static_cast<std::uintptr_t>(piece.begin);
      CHECK((!at_lines || piece.begin == 0 || piece.elements == 0 || begin % kLine == 0));
      for (std::int64_t i = piece.lane; i < piece.elements; i += piece.lanes) {
        ++reads[row][static_cast<std::size_t>(piece.begin + i)];
      }
    }
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CAPTURE(i, rows[i].elements);
    CHECK(reads[i] == std::vector<int>(reads[i].size(), 1));
    CHECK(warps_of_row[i] == (rows[i].elements <= kSmallRow ? 1 : 0));
  }
}

TEST_CASE("A listing names the last row of each block, and how many blocks before end rows") {
  std::vector<ClipRow> rows(9, {.elements = 5});
  rows.insert(rows.begin() + 8, {.elements = 40'000});
  const Blocks blocks = assign_blocks(rows, 14);
  CHECK(blocks.all == 1 + 3 + 1);
  CHECK(blocks.last == 3);
  CHECK(maps_of_blocks(rows, blocks.all) == std::vector{7, 8, 8, 8, 9, 0, 1, 1, 1, 2});
}

TEST_CASE("Gradients of more than 2^31 elements have blocks that fit") {
  std::vector<ClipRow> rows = {
      {.elements = 5}, {.elements = std::int64_t{3} << 31}, {.elements = 9}};
  const int bits = chunk_bits_of(elements_of(rows));
  CHECK(bits == 16);
  CHECK(chunk_bits_of(1000) == 14);
  const Blocks blocks = assign_blocks(rows, bits);
  CHECK(blocks.all == 1 + (std::int64_t{3} << 31 >> bits) + 1);
  CHECK(blocks.last == 3);
  CHECK(rows[2].first_block == 1 + (std::int64_t{3} << 31 >> bits));
  RowTable table;
  fill_table(rows, 0, bits, table);
  emulated::thread.x = 9;
  const Piece last = piece_of(table, table.blocks.all - 2, /*at_lines=*/true);
  CHECK(last.row == 1);
  CHECK(last.begin + last.elements == rows[1].elements);
}

}  // namespace ddpscope::cuda
