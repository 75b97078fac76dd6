// Gradients of two ranks before and after their reduction.
#include <cmath>
#include <limits>

#include "tests/exchange/reducing_ranks.h"

namespace ddpscope::test::reduction_compare_test {

TEST_CASE("the mean of the ranks' gradients has the ratio 1, and nothing is left of it",
          "[compare]") {
  TwoRanks ranks;
  ranks.step(1, scaled(kSum, 0.5), scaled(kSum, 0.5));
  const auto steps = ranks.compared();
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].step == 1);
  CHECK(steps[0].sampled == 1);
  CHECK(steps[0].differing == 0);
  CHECK(steps[0].as_they_arrived == 0);
  CHECK(steps[0].ratio.value() == Approx(1));
  CHECK(steps[0].residual < 1e-12);
  CHECK(steps[0].calls == 3);
  CHECK(steps[0].backwards == 2);
  CHECK(steps[0].reduces_last);
}

TEST_CASE("the ratio is that to the mean, clipping left out", "[compare]") {
  const auto [factor, clip, ratio] =
      GENERATE(table<double, double, double>({{1, 1, 2}, {0.25, 1, 0.5}, {0.1, 0.2, 1}}));
  TwoRanks ranks;
  ranks.step(1, scaled(kSum, factor), scaled(kSum, factor), clip);
  const auto steps = ranks.compared();
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].ratio.value() == Approx(ratio));
  CHECK(steps[0].residual < 1e-12);
}

TEST_CASE("gradients that nobody reduced differ, and are what had arrived", "[compare]") {
  TwoRanks ranks;
  ranks.step(1, kOne, kOther);
  const auto steps = ranks.compared();
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].differing == 1);
  CHECK(steps[0].as_they_arrived == 1);
  CHECK(steps[0].first_differing.path == "fc2.weight");
  CHECK(steps[0].first_differing.model == "Net");
  CHECK(steps[0].largest_difference > 0.5);
}

TEST_CASE("gradients that only a factor changed are what had arrived", "[compare]") {
  TwoRanks ranks;
  ranks.put(0, 1, {.before = kOne, .after = scaled(kOne, 0.1), .clip_factor = 0.2, .weight = 0.5});
  ranks.put(1, 1, {.before = kOther, .after = scaled(kOther, 0.5), .weight = 0.5});
  const auto steps = ranks.compared();
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].as_they_arrived == 1);
}

TEST_CASE("how far gradients lie apart is told of what the optimizer steps with", "[compare]") {
  TwoRanks ranks;
  ranks.put(0, 1, {.before = kOne, .after = scaled(kSum, 0.05), .clip_factor = 0.1});
  ranks.put(1, 1, {.before = kOther, .after = scaled(kSum, 0.5)});
  const auto steps = ranks.compared();
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].differing == 1);
  CHECK(steps[0].as_they_arrived == 0);
  CHECK(steps[0].largest_difference == Approx(0.225 / 0.275));
}

TEST_CASE("collectives run last only where they do so on all ranks", "[compare]") {
  TwoRanks ranks;
  ranks.put(0, 1, {.before = kOne, .after = kOne});
  ranks.put(1, 1, {.before = kOther, .after = kOther, .calls = 0});
  CHECK_FALSE(ranks.compared().at(0).reduces_last);
}

TEST_CASE("factors that ranks have of their own are told where gradients differ", "[compare]") {
  const auto [first, second] = GENERATE(table<double, double>({{0.5, 0.25}, {0.5, 0.5}, {0.5, 0}}));
  TwoRanks ranks;
  ranks.put(0, 1, {.before = kOne, .after = scaled(kSum, 0.5), .weight = first});
  ranks.put(1, 1, {.before = kOther, .after = scaled(kSum, 0.25), .weight = second});
  const auto steps = ranks.compared();
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].differing == 1);
  CHECK(steps[0].factors == (second == 0.25 ? std::vector<RankSide>{{"0.25", {1}}, {"0.5", {0}}}
                                            : std::vector<RankSide>()));
}

TEST_CASE("a rank without collectives beside others is named", "[compare]") {
  const bool is_silent = GENERATE(false, true);
  TwoRanks ranks;
  ranks.step(1, kOne, kOther);
  if (is_silent) ranks.silence_second();
  const auto steps = ranks.compared();
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].calls == 3);
  CHECK(steps[0].silent == (is_silent ? RankList{1} : RankList()));
}

TEST_CASE("calls may be of copies that have the sizes of the gradients", "[compare]") {
  TwoRanks ranks;
  bool may_be = false;
  SECTION("of each of them") {
    ranks.call({.elements = 16});
    may_be = true;
  }
  SECTION("of all of them together") {
    ranks.call({.owner = "bucket", .elements = 56});
    may_be = true;
  }
  SECTION("or not where they are of other sizes") { ranks.call({.elements = 17}); }
  SECTION("nor where they are of gradients themselves") {
    ranks.call({.owner = "fc2.weight.grad", .elements = 16});
  }
  ranks.step(1, kOne, kOther);
  CHECK(ranks.compared().at(0).may_be_copies == may_be);
}

TEST_CASE("gradients of one rank that all step with are told, and of which", "[compare]") {
  TwoRanks ranks;
  std::int64_t count = 0;
  SECTION("where the other rank brought something else") {
    ranks.step(1, kOther, kOther);
    count = 1;
  }
  SECTION("not where it is their mean") { ranks.step(1, scaled(kSum, 0.5), scaled(kSum, 0.5)); }
  SECTION("not where it brought nothing") {
    ranks.put(0, 1, {.before = {}, .after = kOther});
    ranks.put(1, 1, {.before = kOther, .after = kOther});
  }
  SECTION("not where each steps with its own") { ranks.step(1, kOne, kOther); }
  const auto steps = ranks.compared();
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].of_one_rank == count);
  CHECK(steps[0].that_rank == (count > 0 ? 1 : -1));
}

TEST_CASE("what goes to one rank alone is told", "[compare]") {
  TwoRanks ranks;
  bool is_told = false;
  SECTION("by reductions") {
    ranks.call({.elements = 16, .kind = CollectiveKind::kReduce, .root = 0});
    is_told = true;
  }
  SECTION("by gatherings") {
    ranks.call({.elements = 16, .kind = CollectiveKind::kGather, .root = 0});
    is_told = true;
  }
  SECTION("not of a few numbers") {
    ranks.call({.elements = 1, .kind = CollectiveKind::kReduce, .root = 0});
  }
  SECTION("not what goes to all") { ranks.call({.elements = 16}); }
  ranks.step(1, kOne, kOther);
  CHECK(ranks.compared().at(0).to_one_rank == is_told);
}

TEST_CASE("the operation is told that reduced most of a step", "[compare]") {
  TwoRanks ranks;
  ReduceKind reduce = ReduceKind::kMax;
  SECTION("beside that of a few numbers") {
    ranks.call({.elements = 16, .reduce = ReduceKind::kMax});
    ranks.call({.elements = 1});
  }
  SECTION("in several calls") {
    ranks.call({.elements = 9, .reduce = ReduceKind::kSum});
    ranks.call({.elements = 5, .reduce = ReduceKind::kMax});
    ranks.call({.elements = 5, .reduce = ReduceKind::kMax});
  }
  SECTION("but none of a few numbers alone") {
    ranks.call({.elements = 1, .reduce = ReduceKind::kMax});
    reduce = ReduceKind::kNone;
  }
  SECTION("nor of what is only sent") {
    ranks.call({.elements = 16, .kind = CollectiveKind::kSend, .reduce = ReduceKind::kNone});
    reduce = ReduceKind::kNone;
  }
  ranks.step(1, kOne, kOther);
  CHECK(ranks.compared().at(0).reduce == reduce);
}

TEST_CASE("a sum of gradients is the mean where the loss was divided by the ranks", "[compare]") {
  const auto [scale, ratio] = GENERATE(table<double, double>(
      {{0.25, 1}, {0.5, 2}, {1, 2}, {1. / 20, 1}, {1. / 60, 1}, {1. / 10, 2}, {1. / 40, 2}}));
  TwoRanks ranks;
  ranks.batch("[5, 3] float32");
  ranks.step(1, kSum, kSum);
  const auto steps = ranks.compared(2, scale);  // of two backwards
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].ratio.value() == Approx(ratio));
}

TEST_CASE("a scale of the loss that is taken off after the sum is no part of the ratio",
          "[compare]") {
  const auto [scale, after, ratio] = GENERATE(table<double, double, double>(
      {{1024, 1, 2}, {1024, 0.5, 1}, {1024, 0.25, 0.5}, {2048, 1, 2. / 1024}, {0, 1, 2. / 1024}}));
  TwoRanks ranks;
  const Values unscaled = scaled(kSum, after / 1024);
  ranks.step(1, unscaled, unscaled);
  CHECK(ranks.compared(2, scale, /*backwards=*/1).at(0).ratio.value() == Approx(ratio));
}

TEST_CASE("a loss that is divided by the number of backwards is told", "[compare]") {
  const auto [backwards, scale, divides] = GENERATE(
      table<std::int32_t, double, bool>({{4, 0.25, true}, {4, 1, false}, {2, 0.5, false}}));
  TwoRanks ranks;
  ranks.step(1, kSum, kSum);
  CHECK(ranks.compared(2, scale, backwards).at(0).divides_by_period == divides);
}

TEST_CASE("parameters with factors of their own have no ratio in common", "[compare]") {
  TwoRanks ranks;
  const auto put = [&](std::uint32_t parameter, double factor) {
    ranks.put(0, 1, {kOne, scaled(kSum, factor), 1, parameter});
    ranks.put(1, 1, {kOther, scaled(kSum, factor), 1, parameter});
  };
  put(0, 0.5);
  put(2, 0.1);
  const auto steps = ranks.compared();
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].sampled == 2);
  CHECK_FALSE(steps[0].ratio.has_value());
  CHECK(steps[0].noise < 1e-12);
}

TEST_CASE("gradients that are sums beside others that are the mean are counted", "[compare]") {
  TwoRanks ranks;
  const auto put = [&](std::uint32_t parameter, double factor, const Values& other) {
    Values after = kOne;
    for (std::size_t i = 0; i < after.size(); ++i) after[i] = factor * (kOne[i] + other[i]);
    ranks.put(0, 1, {kOne, after, 1, parameter});
    ranks.put(1, 1, {other, after, 1, parameter});
  };
  put(0, 0.5, kOther);
  SECTION("of what all ranks brought") {
    put(2, 1, kOther);
    CHECK(ranks.compared().at(0).undivided == 1);
    CHECK(ranks.compared()[0].first_undivided.path == "fc2.weight");
  }
  SECTION("not of what one brought alone") {
    put(2, 1, {0, 0, 0, 0});
    CHECK(ranks.compared().at(0).undivided == 0);
  }
  SECTION("nor beside other factors") {
    put(1, 0.3, kOther);
    put(2, 1, kOther);
    CHECK(ranks.compared().at(0).undivided == 0);
  }
}

TEST_CASE("models that step in turn are told one after the other", "[compare]") {
  TwoRanks ranks;
  for (const std::int64_t step : {1, 2, 3, 4}) {
    const std::uint32_t model = step % 2 == 0 ? 1 : 0;
    const Values after = scaled(kSum, model == 0 ? 0.5 : 1);
    ranks.put(0, step, {.before = kOne, .after = after, .model = model});
    ranks.put(1, step, {.before = kOther, .after = after, .model = model});
  }
  std::vector<std::int64_t> order;
  std::vector<double> ratios;
  for (const ReductionStep& step : ranks.compared()) {
    order.push_back(step.step);
    ratios.push_back(std::round(step.ratio.value()));
  }
  CHECK(order == std::vector<std::int64_t>{1, 3, 2, 4});
  CHECK(ratios == std::vector<double>{1, 1, 2, 2});
}

TEST_CASE("nothing is said of a gradient", "[compare]") {
  TwoRanks ranks;
  SECTION("that one rank did not step with") { ranks.put(0, 1, {kOne, kOne}); }
  SECTION("that is zero") {
    ranks.put(0, 1, {});
    ranks.put(1, 1, {});
  }
  SECTION("that is not finite") {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    ranks.step(1, {nan, nan, nan, nan}, kOther);
  }
  CHECK(ranks.compared().empty());
}

TEST_CASE("bytes that are no list of reductions are refused", "[compare]") {
  const std::string good = encode(ToldReductions{.gradients = {{}, {}}});
  REQUIRE(decode_reductions(good).value().gradients.size() == 2);
  CHECK_FALSE(decode_reductions("").has_value());
  CHECK_FALSE(decode_reductions(good.substr(1)).has_value());
  CHECK_FALSE(decode_reductions(good + "x").has_value());
  std::string far = good;
  far[24 + 5] = 1;  // a place beyond 32 bits
  CHECK_FALSE(decode_reductions(far).has_value());
}

}  // namespace ddpscope::test::reduction_compare_test
