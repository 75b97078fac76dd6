#include "exchange/cohorts.h"

#include "tests/exchange/compared_rings.h"
#include "tests/support/catch.h"

namespace ddpscope::test::cohorts_test {

TEST_CASE("parts of a cohort are disjoint groups that have all of its ranks", "[compare]") {
  using Groups = std::vector<RankList>;
  const RankList four = {0, 1, 2, 3};
  const Groups pairs = {{0, 1}, {2, 3}};
  CHECK(parts_of(four, {four, {2, 3}, {0, 1}}) == pairs);
  CHECK(parts_of(four, {four, {0, 1}, {0, 1}, {2, 3}, {7, 8}}) == pairs);
  CHECK(parts_of(four, {four}).empty());
  CHECK(parts_of(four, {four, {0, 1}}).empty());                          // two ranks in none
  CHECK(parts_of(four, {{0, 1}, {2, 3}, {0, 2}, {1, 3}, four}).empty());  // within and across
}

TEST_CASE("broadcasts of the parameters before the first backward are told", "[compare]") {
  TestCall call{.elements = 28,
                .kind = CollectiveKind::kBroadcast,
                .reduce = ReduceKind::kNone,
                .phase = Phase::kInit};
  std::int32_t step = 0;
  std::size_t ranks = 2;
  bool are_told = false;
  SECTION("as large as they are") { are_told = true; }
  SECTION("but of fewer elements") { call.elements = 27; }
  SECTION("but no reduced gradients") { call.phase = Phase::kReduce; }
  SECTION("but none of a later step") { step = 2; }
  SECTION("but not of one rank alone") { ranks = 1; }
  TestRun run(2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    run[rank].list(test_list());  // of 56 trained elements
    run[rank].at_step(step);
    for (int sent = 0; rank < ranks && sent < 2; ++sent) run[rank].call(call);
    run[rank].digest({.step = 1, .structure = 7});
  }
  CHECK(run.compared().cohorts.at(0).broadcasts_at_start == are_told);
}

TEST_CASE("a group of one rank is a part only beside averages of more", "[compare]") {
  const bool in_one_step = GENERATE(false, true);
  const auto calls_of = [&](std::int64_t rank) {
    RankCalls calls{.rank = rank};
    calls.groups[group_key(7 << 21, 2)] = {.writes_gradients = true, .write_steps = {1, 2, 3, 7}};
    calls.groups[group_key((8 + rank) << 21, 1)] = {.writes_gradients = true,
                                                    .write_steps = {in_one_step ? 3 : 4, 5}};
    return calls;
  };
  const RankCohorts found = cohorts_of({calls_of(0), calls_of(1)});
  CHECK(found.cohorts == std::vector<RankList>{{0, 1}});
  CHECK(parts_of({0, 1}, found.groups).empty() == !in_one_step);
}

}  // namespace ddpscope::test::cohorts_test
