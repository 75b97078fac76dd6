// Gradients that are a multiple of what the ranks brought, or are not.
#include "tests/exchange/reducing_ranks.h"

namespace ddpscope::test::reduction_fit_test {

TEST_CASE("what is no multiple of the sum is told relative to the gradient", "[compare]") {
  TwoRanks ranks;
  Values wrong = scaled(kSum, 0.5);
  wrong[0] += 1;
  ranks.step(1, wrong, wrong);
  const auto steps = ranks.compared();
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].differing == 0);
  CHECK(steps[0].residual > 0.1);
  CHECK(steps[0].noise > 0.01);
  CHECK(steps[0].worst.path == "fc2.weight");
  CHECK(steps[0].worst.dtype == "float32");
}

TEST_CASE("gradients cleared between backwards are kept elsewhere or dropped", "[compare]") {
  const Values whole = {5, -7, 2, 4};  // of the first rank, in two backwards
  Values mean = scaled(kSum, 0.5);
  double residual = 0;
  SECTION("kept: the sum of all that arrived") {
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] = (whole[i] + kOther[i]) / 2;
  }
  SECTION("dropped: of what arrived last") {}
  SECTION("or neither") {
    mean = {9, 1, 9, -9};
    residual = 0.1;
  }
  TwoRanks ranks;
  ranks.put(0, 1, {.before = kOne, .after = mean, .total = whole});
  ranks.put(1, 1, {.before = kOther, .after = mean});
  const auto steps = ranks.compared();
  REQUIRE(steps.size() == 1);
  if (residual == 0) {
    CHECK(steps[0].ratio.value() == Approx(1));
    CHECK(steps[0].not_linear == 0);
    CHECK(steps[0].residual < 1e-12);
  } else {
    CHECK(steps[0].not_linear == 1);
    CHECK(steps[0].residual > residual);
  }
}

TEST_CASE("what was reduced before the last backward began is of another one", "[compare]") {
  const std::uint64_t calls = GENERATE(0, 1);
  TwoRanks ranks;
  const Values other = {9, 9, 9, 9};
  ranks.put(0, 1, {.before = kOne, .after = other, .calls = calls});
  ranks.put(1, 1, {.before = kOther, .after = other, .calls = calls});
  const auto steps = ranks.compared();
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].differing == 0);
  CHECK((steps[0].noise > 0) == (calls > 0));
}

TEST_CASE("of a sum to which others have added only the bits are compared", "[compare]") {
  TwoRanks ranks;
  ranks.step(1, {9, 9, 9, 9}, {9, 9, 9, 9});
  const auto steps = ranks.compared(3);
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].differing == 0);
  CHECK_FALSE(steps[0].ratio.has_value());
  CHECK(steps[0].noise == 0);
}

TEST_CASE("of gradients that are no sum of what arrived only the bits are compared", "[compare]") {
  TwoRanks ranks;
  const Values other = {9, 9, 9, 9};
  TwoRanks::Told first{.before = kOne, .after = other};
  TwoRanks::Told second{.before = kOther, .after = other};
  std::int64_t differing = 0;
  std::int64_t not_linear = 0;
  SECTION("since a program changed them by more than a factor") { second.is_changed = true; }
  SECTION("since each rank weighed its own") {
    second.weight = 0.25;
    not_linear = 1;
  }
  SECTION("on ranks that differ") {
    second.is_changed = true;
    second.after[0] = 8;
    differing = 1;
  }
  ranks.put(0, 1, first);
  ranks.put(1, 1, second);
  const auto steps = ranks.compared();
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].sampled == 1);
  CHECK(steps[0].differing == differing);
  CHECK(steps[0].not_linear == not_linear);
  CHECK_FALSE(steps[0].ratio.has_value());
  CHECK(steps[0].noise == 0);
}

TEST_CASE("a weight that is known of one rank alone is none", "[compare]") {
  TwoRanks ranks;
  const Values mean = scaled(kSum, 0.5);
  ranks.put(0, 1, {.before = kOne, .after = mean, .weight = kUnknownWeight});
  ranks.put(1, 1, {.before = kOther, .after = mean, .weight = 0.25});
  const auto steps = ranks.compared();
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].not_linear == 0);
  CHECK(steps[0].ratio.value() == Approx(1));
}

}  // namespace ddpscope::test::reduction_fit_test
