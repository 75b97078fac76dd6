// Rings that are not there, not ours or not whole cost their rank and one remark each.
#include "exchange/ring_set.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/exchange/compared_rings.h"
#include "tests/exchange/ring_files.h"

namespace ddpscope::test::ring_set_test {
namespace {
RingSet open_all(const TemporaryDir& dir) { return open_rings(list_rings(dir.path()), "r1"); }
}  // namespace

TEST_CASE("the rings of a folder come by rank", "[compare]") {
  const TemporaryDir dir;
  const TestRank ten(dir.path(), 10, 11);
  const TestRank two(dir.path(), 2, 11);
  std::ofstream(dir / "rank-03.ring") << "x";
  std::ofstream(dir / "rank-3.ring.old") << "x";
  std::ofstream(dir / "rank-.ring") << "x";
  const RingSet set = open_all(dir);
  REQUIRE(set.rings.size() == 2);
  CHECK(set.rings[0].head().rank == 2);
  CHECK(set.rings[1].head().rank == 10);
  CHECK(set.remarks.empty());
  CHECK(list_rings("/nonexistent").empty());
}

TEST_CASE("what is no ring of this run and rank is left out with one remark", "[compare]") {
  const TemporaryDir dir;
  const TestRank good(dir.path(), 0, 4);
  const std::string path = dir / "rank-1.ring";
  SECTION("of another run") { const TestRank other(dir.path(), 1, 4, "r2"); }
  SECTION("of another rank") { std::filesystem::copy_file(dir / "rank-0.ring", path); }
  SECTION("empty") { std::ofstream(path).flush(); }
  SECTION("of random bytes") { std::ofstream(path) << std::string(100'000, '\x5a'); }
  SECTION("a link") { std::filesystem::create_symlink(dir / "rank-0.ring", path); }
  SECTION("a pipe") { REQUIRE(::mkfifo(path.c_str(), 0600) == 0); }
  SECTION("a folder") { std::filesystem::create_directory(path); }
  const RingSet set = open_all(dir);
  REQUIRE(set.rings.size() == 1);
  REQUIRE(set.remarks.size() == 1);
  CHECK(set.remarks[0].starts_with(path + ": "));
}

TEST_CASE("steps before the first call that all ranks made are steps of all", "[compare]") {
  const TemporaryDir dir;
  std::int32_t of_second = 0;
  LoneEnd end = LoneEnd::kWithCall;
  bool are_shown = false;
  SECTION("where these are as many") {
    of_second = 3;
    are_shown = true;
  }
  SECTION("not where one made none") {}
  SECTION("not where one made others") { of_second = 2; }
  SECTION("not where what they hold was sent after them") {
    of_second = 3;
    end = LoneEnd::kWithValues;
  }
  for (const std::int64_t rank : {0, 1}) {
    RingWriter writer;
    REQUIRE(open_ring(writer, dir.path(), kSmallRing, rank) == "");
    for (std::int64_t step = 0; step < 8; ++step) writer.put(StepDigest{.step = step});
    const std::int32_t steps = rank == 0 ? 3 : of_second;
    if (steps > 0) writer.put(LoneSteps{.steps = steps, .end = end});
  }
  const RingSet set = open_rings(list_rings(dir.path()), "run");
  REQUIRE(set.rings.size() == 2);
  CHECK(set.rings[0].digest(1).has_value() == are_shown);
}

TEST_CASE("steps of ranks are not compared where threads of one make them side by side",
          "[compare]") {
  const TemporaryDir dir;
  const bool by_threads = GENERATE(true, false);
  for (const std::int64_t number : {0, 1}) {
    TestRank rank(dir.path(), number, 2);
    rank.at_step(1);
    rank.call({.elements = 4});
    for (const std::int64_t step : {1, 2}) {
      rank.digest({.step = step, .structure = static_cast<std::uint64_t>(7 + number)});
    }
    if (by_threads && number == 1) rank.writer.put(LoneSteps{.steps = 2, .end = LoneEnd::kNever});
  }
  const RingSet set = open_all(dir);
  const RanksComparedEvent compared = compare_ranks(set.rings, {.world_size = 2});
  CHECK(compared.digests == (by_threads ? 0 : 4));
  CHECK(compared.calls == 2);
  REQUIRE(set.remarks.size() == (by_threads ? 1 : 0));
  if (by_threads) CHECK(set.remarks[0].starts_with("threads of rank 1 step optimizers"));
}

TEST_CASE("steps that part what ranks call together are no lone ones", "[compare]") {
  const TemporaryDir dir;
  std::int32_t behind = 0;  // the steps of the second rank
  SECTION("where ranks called each other in steps of one number") {}
  SECTION("not where they did so without these steps") { behind = 3; }
  for (const std::int64_t rank : {0, 1}) {
    RingWriter writer;
    REQUIRE(open_ring(writer, dir.path(), kSmallRing, rank) == "");
    for (std::int32_t step = 0; step < 8; ++step) writer.put(StepDigest{.step = step});
    for (std::int32_t call = 1; call < 5; ++call) {
      const std::int32_t step = call + 3 - (rank == 1 ? behind : 0);
      writer.issued(
          {.seq = static_cast<std::uint64_t>(call), .group = group_key(0, 2), .step = step});
    }
    if (rank == 0) writer.put(LoneSteps{.steps = 3});
  }
  const RingSet set = open_rings(list_rings(dir.path()), "run");
  REQUIRE(set.rings.size() == 2);
  CHECK(set.rings[0].digest(1).has_value() == (behind == 0));
}

TEST_CASE("a ring that was cut off anywhere is left out with one remark", "[compare]") {
  const TemporaryDir dir;
  const TestRank good(dir.path(), 0, 2);
  const TestRank cut(dir.path(), 1, 2);
  const std::string path = dir / "rank-1.ring";
  const auto whole = std::filesystem::file_size(path);
  const std::uintmax_t missing = GENERATE(1, 5000, 100'000);
  std::filesystem::resize_file(path, whole - missing);
  const RingSet set = open_all(dir);
  CHECK(set.rings.size() == 1);
  REQUIRE(set.remarks.size() == 1);
  CHECK(set.remarks[0] == path + ": its last " + std::to_string(missing) + " bytes are cut off");
}

TEST_CASE("of two rings of one rank the first is taken", "[compare]") {
  const TemporaryDir dir;
  const TestRank first(dir / "a", 0, 1);
  const TestRank second(dir / "b", 0, 1);
  auto places = list_rings(dir / "a");
  for (const RingPlace& place : list_rings(dir / "b")) places.push_back(place);
  const RingSet set = open_rings(places, "r1");
  CHECK(set.rings.size() == 1);
  REQUIRE(set.remarks.size() == 1);
  CHECK(set.remarks[0] == (dir / "b/rank-0.ring") + ": rank 0 was read before");
}

}  // namespace ddpscope::test::ring_set_test
