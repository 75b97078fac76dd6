#include "tests/exchange/compared_rings.h"

namespace ddpscope::test::batch_compare_test {
namespace {
/// One batch per step, from step 1 on, on each rank.
std::vector<SameBatches> same_of(const std::vector<std::vector<std::uint64_t>>& batches) {
  TestRun run(static_cast<std::int64_t>(batches.size()));
  for (std::size_t rank = 0; rank < batches.size(); ++rank) {
    run[rank].writer.put(
        Blob{.kind = BlobKind::kBatch, .number = 0, .step = 1, .bytes = "[4, 12] float32"});
    for (std::size_t i = 0; i < batches[rank].size(); ++i) {
      run[rank].digest({.step = static_cast<std::int64_t>(i) + 1, .batch = batches[rank][i]});
    }
  }
  const RanksComparedEvent event = run.compared();
  REQUIRE(event.cohorts.size() == 1);
  return event.cohorts[0].same_batches;
}
}  // namespace

TEST_CASE("ranks that read the same three batches in a row are told", "[compare]") {
  const auto same = same_of({{1, 2, 3, 4}, {9, 2, 3, 4}, {7, 8, 5, 6}});
  REQUIRE(same.size() == 1);
  CHECK(same[0].step == 2);
  CHECK(same[0].ranks == RankList{0, 1});
  CHECK(same[0].steps == 3);
  CHECK(same[0].overlap_ratio == 1);
  CHECK(same[0].shape == "[4, 12] float32");
  CHECK_FALSE(same[0].in_another_order);
}

TEST_CASE("groups of ranks that read the same are told in the order of their ranks", "[compare]") {
  const auto same = same_of({{9, 8, 7, 6}, {9, 8, 7, 6}, {1, 2, 3, 4}, {1, 2, 3, 4}});
  REQUIRE(same.size() == 2);
  CHECK(same[0].ranks == RankList{0, 1});
  CHECK(same[1].ranks == RankList{2, 3});
}

TEST_CASE("the same batches in another order are told", "[compare]") {
  const auto same = same_of({{1, 2, 3, 4, 5, 6, 7, 8}, {8, 3, 5, 1, 7, 2, 6, 4}});
  REQUIRE(same.size() == 1);
  CHECK(same[0].in_another_order);
  CHECK(same[0].ranks == RankList{0, 1});
  CHECK(same[0].overlap_ratio == 1);
}

TEST_CASE("the same batches in another order are told over several passes", "[compare]") {
  const auto same = same_of({{1, 2, 3, 4, 5, 6, 7, 8, 2, 1, 4, 3, 6, 5, 8, 7},
                             {8, 3, 5, 1, 7, 2, 6, 4, 1, 3, 8, 5, 2, 7, 4, 6}});
  REQUIRE(same.size() == 1);
  CHECK(same[0].in_another_order);
}

TEST_CASE("nothing is said of batches", "[compare]") {
  std::vector<std::vector<std::uint64_t>> batches;
  SECTION("that differ") { batches = {{1, 2, 3, 4, 5, 6, 7, 8}, {11, 12, 13, 14, 15, 16, 17, 18}}; }
  SECTION("that do not change") { batches = {{1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}}; }
  SECTION("that take turns") { batches = {{1, 2, 1, 2, 1, 2}, {1, 2, 1, 2, 1, 2}}; }
  SECTION("that nobody saw") { batches = {{0, 0, 0, 0}, {0, 0, 0, 0}}; }
  SECTION("that are equal in two steps alone") { batches = {{1, 2, 3, 4}, {1, 2, 5, 6}}; }
  SECTION("of which only some are shared") {
    batches = {{1, 2, 3, 4, 5, 6, 7, 8}, {8, 3, 11, 12, 13, 14, 15, 16}};
  }
  SECTION("that are shared anew in each pass") {
    batches = {{1, 2, 3, 4, 5, 6, 7, 8, 11, 2, 13, 4, 15, 6, 17, 8, 1, 12, 3, 14, 5, 16, 7, 18},
               {11, 12, 13, 14, 15, 16, 17, 18, 1, 12, 3, 14, 5, 16, 7, 18, 11, 2, 13, 4, 15}};
  }
  CHECK(same_of(batches).empty());
}

namespace {
/// States before the first dropout of the steps that were surveyed; 0: the step was not.
std::vector<SameRandom> random_of(const std::vector<std::vector<std::uint64_t>>& states) {
  TestRun run(static_cast<std::int64_t>(states.size()));
  for (std::size_t rank = 0; rank < states.size(); ++rank) {
    run[rank].writer.put(Blob{
        .kind = BlobKind::kRandom, .number = 0, .step = 1, .bytes = "67 aten::dropout a.drop"});
    for (std::size_t i = 0; i < states[rank].size(); ++i) {
      run[rank].digest({.step = static_cast<std::int64_t>(i) + 1, .random = states[rank][i]});
    }
  }
  const RanksComparedEvent event = run.compared();
  REQUIRE(event.cohorts.size() == 1);
  return event.cohorts[0].same_random;
}
}  // namespace

TEST_CASE("equal random states are told with what drew first", "[compare]") {
  const auto same = random_of({{5, 6, 0, 9}, {5, 6, 0, 9}});
  REQUIRE(same.size() == 1);
  CHECK(same[0].step == 1);
  CHECK(same[0].steps == 3);
  CHECK(same[0].ranks == RankList{0, 1});
  CHECK(same[0].seed == "67");
  CHECK(same[0].op == "aten::dropout");
  CHECK(same[0].module == "a.drop");
}

TEST_CASE("nothing is said of random states", "[compare]") {
  std::vector<std::vector<std::uint64_t>> states;
  SECTION("that differ") { states = {{5, 6}, {7, 8}}; }
  SECTION("that differ later") { states = {{5, 6, 7}, {5, 6, 8}}; }
  SECTION("of one step") { states = {{5, 0, 0}, {5, 0, 0}}; }
  SECTION("of some ranks") { states = {{5, 6}, {5, 6}, {0, 0}}; }
  CHECK(random_of(states).empty());
}

}  // namespace ddpscope::test::batch_compare_test
