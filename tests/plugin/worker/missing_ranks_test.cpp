// Ranks of which nothing arrives while others train.
#include "plugin/missing_ranks.h"

#include <memory>

#include "tests/support/catch.h"
#include "tests/support/rank_rings.h"
#include "tests/support/temporary_dir.h"

namespace ddpscope::test::missing_ranks_test {
namespace {
constexpr std::int64_t kTimeoutNs = 5'000'000'000;

RunRecord run_of(std::int64_t world_size) {
  RunRecord run;
  run.run_id = "r1";
  run.world_size = world_size;
  return run;
}

/// The first ranks of so many, and what the lowest says of the others.
class Present {
 public:
  Present(std::int64_t count, std::int64_t world_size, const Settings& settings = {})
      : missing_(run_of(world_size), settings) {
    for (std::int64_t rank = 0; rank < count; ++rank) {
      ranks_.push_back(std::make_unique<TestRank>(dir_.path(), rank, world_size));
    }
  }

  MissingRanks::Way way = MissingRanks::Way::kFolder;

  TestRank& rank(std::size_t rank) { return *ranks_[rank]; }
  void end_step(std::int64_t step) {
    for (const auto& rank : ranks_) {
      rank->beat("net");
      rank->digest({.step = step});
    }
  }
  const std::string& dir() const { return dir_.path(); }
  std::optional<Finding> look(std::int64_t at_ns) {
    return missing_.look(open_rings(list_rings(dir_.path()), "r1"), way, at_ns);
  }
  /// Time goes by after a step was seen.
  std::optional<Finding> look_twice() {
    CHECK_FALSE(look(1).has_value());
    return look(1 + kTimeoutNs);
  }

 private:
  TemporaryDir dir_;
  std::vector<std::unique_ptr<TestRank>> ranks_;
  MissingRanks missing_;
};
}  // namespace

TEST_CASE("ranks without records are missing once a step ended and the timeout passed",
          "[missing_ranks]") {
  Present present(6, 8);
  CHECK_FALSE(present.look(1).has_value());  // no step has ended
  CHECK_FALSE(present.look(1 + 2 * kTimeoutNs).has_value());
  present.end_step(3);
  CHECK_FALSE(present.look(2 + 2 * kTimeoutNs).has_value());
  const auto found = present.look(2 + 3 * kTimeoutNs);
  REQUIRE(found.has_value());
  CHECK(found->id == "tool-rank-missing");
  CHECK(found->severity == Severity::kWarning);
  CHECK(found->what == "ranks 6-7 sent no record within 5000 ms; comparing 6 of 8 ranks");
  CHECK(found->why == "the last heartbeat of rank 6 was never seen, of rank 7 was never seen");
  CHECK(found->step == 3);
  CHECK(found->ranks == std::vector<std::int64_t>{6, 7});
  CHECK_FALSE(present.look(2 + 9 * kTimeoutNs).has_value());  // once
}

TEST_CASE("a rank whose heart stopped while the others went on is missing", "[missing_ranks]") {
  Present present(3, 3);
  present.end_step(1);
  for (int step = 2; step < 20; ++step) {
    for (const std::size_t rank : {0u, 1u}) {
      present.rank(rank).pass_ms(1000);
      present.rank(rank).beat("net");
      present.rank(rank).digest({.step = step});
    }
  }
  const auto found = present.look_twice();
  REQUIRE(found.has_value());
  CHECK(found->what == "rank 2 sent no record within 5000 ms; comparing 2 of 3 ranks");
  CHECK(found->why == "the last heartbeat of rank 2 is 18 s old");
}

TEST_CASE("nothing is missing where ranks wait for one, or where one has ended",
          "[missing_ranks]") {
  Present present(2, 2);
  present.end_step(1);
  SECTION("they wait: collective-hang tells it") {
    present.rank(0).pass_ms(60000);
    present.rank(0).beat("net");
  }
  SECTION("its ring was sent a while ago") {
    present.way = MissingRanks::Way::kStore;
    present.rank(0).pass_ms(60000);
    present.rank(0).digest({.step = 2});
  }
  SECTION("it left its loop") {
    present.rank(1).beat("net", Phase::kExit, /*ended=*/true);
    present.rank(0).pass_ms(60000);
    present.rank(0).digest({.step = 2});
  }
  CHECK_FALSE(present.look_twice().has_value());
  CHECK_FALSE(present.look(1 + 3 * kTimeoutNs).has_value());
}

TEST_CASE("ranks that may leave their records elsewhere are not missing", "[missing_ranks]") {
  Present present(1, 2);
  present.way = MissingRanks::Way::kNotKnown;
  present.end_step(1);
  CHECK_FALSE(present.look_twice().has_value());
}

TEST_CASE("a rank that reports there as another run is told so", "[missing_ranks]") {
  Present present(1, 3);
  const TestRank other(present.dir(), 2, 3, "r2");
  present.end_step(1);
  const auto found = present.look_twice();
  REQUIRE(found.has_value());
  CHECK(found->ranks == std::vector<std::int64_t>{1, 2});
  CHECK(found->why.starts_with("rank 2 left records of another run there"));
  CHECK(found->fixes[0].text == "set DDPSCOPE_RUN_ID to one word for all ranks");
}

TEST_CASE("ranks that send their records have three times as long", "[missing_ranks]") {
  Present present(1, 2);
  present.way = MissingRanks::Way::kStore;
  present.end_step(1);
  CHECK_FALSE(present.look_twice().has_value());
  const auto found = present.look(1 + 3 * kTimeoutNs);
  REQUIRE(found.has_value());
  CHECK(found->what == "rank 1 sent no record within 15000 ms; comparing 1 of 2 ranks");
}

TEST_CASE("a check that is off says nothing of missing ranks", "[missing_ranks]") {
  Settings settings;
  settings.checks = "-tool-rank-missing";
  Present present(1, 2, settings);
  present.end_step(1);
  CHECK_FALSE(present.look_twice().has_value());
}

}  // namespace ddpscope::test::missing_ranks_test
