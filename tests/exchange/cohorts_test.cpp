#include "exchange/cohorts.h"

#include "tests/support/catch.h"

namespace ddpscope::test {

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

}  // namespace ddpscope::test
