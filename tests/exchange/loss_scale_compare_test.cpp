// Losses that are scaled up, and gradients scaled down after they were reduced.
#include "tests/exchange/reducing_ranks.h"

namespace ddpscope::test::loss_scale_compare_test {
namespace {
/// Three steps; the scale is told of the first and the third alone. The second has `scale`.
std::vector<ReductionStep> steps_with(double scale, double factor) {
  TwoRanks ranks;
  for (const std::int64_t step : {1, 2, 3}) {
    const double divisor = step == 1 ? 1024 : scale;
    const Values after = scaled(kSum, factor / divisor);
    ranks.step(step, after, after);
    ranks.digest(step, step == 2 ? 0 : divisor);
  }
  return ranks.reductions();
}
}  // namespace

TEST_CASE("a scale that is not known to have changed is no other divisor", "[compare]") {
  const double scale = GENERATE(512, 2048);
  const auto steps = steps_with(scale, 0.5);
  REQUIRE(steps.size() == 3);
  CHECK(steps[0].ratio.value() == Approx(1));
  CHECK_FALSE(steps[1].ratio.has_value());
  CHECK(steps[2].ratio.value() == Approx(1));
}

TEST_CASE("a scale that stays is known in the steps between", "[compare]") {
  const auto [factor, ratio] = GENERATE(table<double, double>({{0.5, 1}, {1, 2}, {0.25, 0.5}}));
  const auto steps = steps_with(1024, factor);
  REQUIRE(steps.size() == 3);
  for (const ReductionStep& step : steps) CHECK(step.ratio.value() == Approx(ratio));
}

TEST_CASE("a sum of gradients is the mean where losses are weighed by shares of one", "[compare]") {
  const auto [first, second, ratio] = GENERATE(
      table<double, double, double>({{0.4, 0.6, 1}, {0.4, 0.7, 2}, {0.5, 0.5, 1}, {0, 0.6, 2}}));
  TwoRanks ranks;
  ranks.step(1, kSum, kSum);
  const auto steps = ranks.compared_with({first, second});
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].ratio.value() == Approx(ratio));
}

}  // namespace ddpscope::test::loss_scale_compare_test
