// Ranks that no average was to reach, and ranks that leave the steps to others.
#include "tests/exchange/compared_rings.h"

namespace ddpscope::test::lone_ranks_test {
namespace {
/// Ranks 0 and 1 of three average over a group of two. Rank 1 has other gradients all along.
struct PairAndOne {
  std::uint64_t structure = 7;  ///< of rank 2
  std::int32_t optimizer_steps = 1;
  std::int64_t size_of_group = 2;

  RanksComparedEvent compared() const {
    TestRun run(3);
    for (std::size_t rank = 0; rank < 3; ++rank) {
      if (rank < 2) run[rank].enter(group_key(0x11111100000000, size_of_group));
      for (std::int32_t step = 1; step <= 4; ++step) {
        run[rank].at_step(step);
        if (rank < 2) run[rank].reduce("fc1.weight");
        run[rank].digest({.step = step,
                          .structure = rank < 2 ? 7 : structure,
                          .gradients = 20 + rank,
                          .optimizer_steps = rank < 2 ? step : step * optimizer_steps,
                          .averages = rank < 2});
      }
    }
    return run.compared();
  }
};
}  // namespace

TEST_CASE("a rank outside of the group that averages is not compared with it", "[compare]") {
  PairAndOne run;
  bool is_apart = true;
  SECTION("where it has another model") { run.structure = 8; }
  SECTION("where it leaves the steps to others") { run.optimizer_steps = 0; }
  SECTION("but where it trains the same model") { is_apart = false; }
  SECTION("but where the group has more ranks than were seen") {
    run.structure = 8;
    run.size_of_group = 3;
    is_apart = false;
  }
  const RanksComparedEvent event = run.compared();
  REQUIRE(event.cohorts.size() == (is_apart ? 2 : 1));
  CHECK(event.cohorts[0].ranks == (is_apart ? RankList{0, 1} : RankList{0, 1, 2}));
  CHECK(event.cohorts[0].compared_steps == 4);
  CHECK_FALSE(event.cohorts[0].digests.empty());
  CHECK_FALSE(event.apart.has_value());
  if (is_apart) {
    REQUIRE(event.remarks.size() == 1);
    CHECK(event.remarks[0] ==
          "rank 2 averages with no other rank: what it computes is not compared with ranks 0-1");
  }
}

TEST_CASE("a rank that takes no steps and reads the weights elsewhere is led", "[compare]") {
  const bool reads_weights = GENERATE(true, false);
  TestRun run(2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    for (std::int32_t step = 1; step <= 4; ++step) {
      run[rank].at_step(step);
      run[rank].reduce("fc1.weight");
      const bool changes = rank == 0 || reads_weights;
      run[rank].digest({.step = step,
                        .structure = 7,
                        .parameters = changes ? 90 + rank + static_cast<std::uint64_t>(step) : 90,
                        .optimizer_steps = rank == 0 ? step : 0,
                        .averages = true});
    }
  }
  CHECK(run.compared().cohorts.at(0).digests.empty() == reads_weights);
}

TEST_CASE("whether some rank told of a model is told", "[compare]") {
  const bool has_model = GENERATE(true, false);
  TestRun run(2);
  run[0].digest({.step = 1});
  run[1].digest({.step = 1, .structure = has_model ? 7U : 0U});
  run[1].digest({.step = 2});  // events were lost
  CHECK(run.compared().has_models == has_model);
}

TEST_CASE("without a ring there is nothing to compare", "[compare]") {
  const RanksComparedEvent event = compare_ranks({}, {.world_size = 1});
  for (const Cohort& cohort : event.cohorts) {
    CHECK(cohort.digests.empty());
    CHECK(cohort.values.empty());
  }
}

}  // namespace ddpscope::test::lone_ranks_test
