// Programs that step with the mean of the step before, while this step's is still under way.
#include <cmath>

#include "tests/exchange/reducing_ranks.h"

namespace ddpscope::test::overlapped_steps_test {
namespace {
/// Of another direction in each step.
Values brought_in(std::int64_t step) {
  const double angle = 0.7 * static_cast<double>(step);
  return {std::cos(angle), std::sin(angle), std::cos(2 * angle), std::sin(2 * angle)};
}

void put_on_both(TwoRanks& ranks, std::int64_t step, const Values& after) {
  ranks.put(0, step, {.before = brought_in(step), .after = after});
  ranks.put(1, step, {.before = brought_in(step), .after = after});
}
}  // namespace

TEST_CASE("gradients of the step before are not compared with those of this one", "[compare]") {
  const std::int64_t delay = GENERATE(1, 2, 4);
  TwoRanks ranks;
  for (std::int64_t step = 1; step <= 12; ++step) {
    put_on_both(ranks, step, brought_in(step - delay));
  }
  const auto steps = ranks.compared();
  REQUIRE(steps.size() == 12);
  for (const ReductionStep& step : steps) {
    CHECK(step.not_linear == 0);
    CHECK(step.residual == 0);
  }
}

TEST_CASE("nor where steps between were not recorded", "[compare]") {
  TwoRanks ranks;
  for (const std::int64_t step : {1, 2, 3, 40, 41, 42, 60}) {
    put_on_both(ranks, step, brought_in(step - 1));
  }
  const auto steps = ranks.compared();
  REQUIRE(steps.size() == 7);
  for (const ReductionStep& step : steps) CHECK(step.noise == 0);
}

TEST_CASE("nor where this step brings nearly what the one before did", "[compare]") {
  TwoRanks ranks;
  for (const std::int64_t step : {1, 2, 3, 4, 5}) {
    Values brought = brought_in(step == 4 ? 3 : step);
    if (step == 4) brought[0] += 0.004;
    for (const std::size_t rank : {0, 1}) {
      ranks.put(rank, step, {.before = brought, .after = brought_in(step - 1)});
      ranks.put(rank, step,
                {.before = brought_in(step), .after = brought_in(step - 1), .parameter = 1});
    }
  }
  const auto steps = ranks.compared();
  REQUIRE(steps.size() == 5);
  for (const ReductionStep& step : steps) CHECK(step.noise == 0);
}

TEST_CASE("a step that has the gradients of another by chance excuses no other", "[compare]") {
  TwoRanks ranks;
  for (const std::int64_t step : {1, 2, 3, 4, 5}) {
    put_on_both(ranks, step, step == 4 ? brought_in(3) : Values{1, 1, 1, 1});
  }
  const auto steps = ranks.compared();
  REQUIRE(steps.size() == 5);
  for (const ReductionStep& step : steps) CHECK((step.not_linear == 1) == (step.step != 4));
}

}  // namespace ddpscope::test::overlapped_steps_test
