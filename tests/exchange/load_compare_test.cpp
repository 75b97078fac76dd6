// Archives that some ranks alone read while they train.
#include "tests/exchange/compared_rings.h"

namespace ddpscope::test::load_compare_test {
namespace {
std::vector<LoadedOnSome> loads_of(TestRun& run) { return run.compared().cohorts.at(0).loads; }

void load(TestRank& rank, std::int64_t step) {
  rank.writer.put(Blob{.kind = BlobKind::kLoad, .number = 0, .step = step, .bytes = "1"});
}
}  // namespace

TEST_CASE("a load on some ranks alone is told with its step", "[compare]") {
  TestRun run(3);
  for (auto& rank : run) rank->digest({.step = 1, .structure = 7});
  CHECK(loads_of(run).empty());
  for (auto& rank : run) load(*rank, 4);
  load(run[0], 23);
  REQUIRE(loads_of(run).size() == 1);
  CHECK(loads_of(run)[0].step == 23);
  CHECK(loads_of(run)[0].ranks == RankList{0});
}

TEST_CASE("a load on all ranks, on either side of one step, is of all", "[compare]") {
  const std::int64_t other = GENERATE(22, 23, 24, 26);
  TestRun run(2);
  for (auto& rank : run) rank->digest({.step = 1, .structure = 7});
  load(run[0], 23);
  load(run[1], other);
  CHECK(loads_of(run).empty() == (other < 26));
}

}  // namespace ddpscope::test::load_compare_test
