// What the calls of a step say of its gradients.
#include "tests/exchange/reducing_ranks.h"

namespace ddpscope::test::step_calls_test {

TEST_CASE("calls count of a step in which ranks stood still before them", "[compare]") {
  TwoRanks ranks;
  ranks.digest(1, 0);
  ranks.step(2, kOne, kOther);
  ranks.stand_still(2);
  ranks.digest(2, 0);
  const auto steps = ranks.reductions();
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].calls == 1);
  CHECK(steps[0].silent.empty());
  CHECK(steps[0].backwards == 1);
}

}  // namespace ddpscope::test::step_calls_test
