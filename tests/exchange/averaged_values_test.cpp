// Whether gradients were averaged, by what they hold.
#include "tests/exchange/reducing_ranks.h"

namespace ddpscope::test::averaged_values_test {

TEST_CASE("ranks that step with one mean of what differed average, whatever they call",
          "[compare]") {
  TwoRanks ranks;
  ranks.step(1, scaled(kSum, 0.5), scaled(kSum, 0.5));
  CHECK(ranks.compared().at(0).averaged == 1);
  CHECK(ranks.average());
}

TEST_CASE("a sum that was clipped alike is averaged", "[compare]") {
  TwoRanks ranks;
  ranks.step(1, scaled(kSum, 0.25), scaled(kSum, 0.25), 0.25);
  CHECK(ranks.compared().at(0).averaged == 1);
}

TEST_CASE("equal data averages nothing", "[compare]") {
  TwoRanks ranks;
  for (const std::size_t rank : {0, 1}) {
    ranks.put(rank, 1, {.before = kOne, .after = scaled(kOne, 0.5)});
  }
  CHECK(ranks.compared().at(0).averaged == 0);
  CHECK_FALSE(ranks.average());
}

TEST_CASE("what one rank sent to all is no average", "[compare]") {
  TwoRanks ranks;
  ranks.step(1, kOne, kOne);
  CHECK(ranks.compared().at(0).averaged == 0);
  CHECK_FALSE(ranks.average());
}

TEST_CASE("ranks that combine gradients by other means than a sum average none", "[compare]") {
  TwoRanks ranks;
  constexpr Values kSigns = {1, -1, 1, 1};
  ranks.step(1, kSigns, kSigns);
  ranks.step(2, scaled(kSum, 0.5), scaled(kSum, 0.5));
  const auto steps = ranks.compared();
  CHECK(steps.at(0).combined == 1);
  CHECK(steps.at(1).averaged == 1);
  CHECK_FALSE(ranks.average());
}

TEST_CASE("a call whose result came back to one model is no copy of another's gradients",
          "[compare]") {
  TwoRanks ranks;
  ranks.call({.owner = "bucket"});
  for (const std::uint32_t model : {0U, 1U}) {
    const bool is_back = model == 1;
    ranks.put(0, 1, {.before = kOne, .after = is_back ? kSum : kOne, .model = model});
    ranks.put(1, 1, {.before = kOther, .after = is_back ? kSum : kOther, .model = model});
  }
  ranks.digest(1, 0);
  const auto steps = ranks.reductions();
  REQUIRE(steps.size() == 2);
  CHECK(steps[0].as_they_arrived == 1);
  CHECK_FALSE(steps[0].may_be_copies);
}

TEST_CASE("where a rank brings zeros alone, no ratio is told", "[compare]") {
  const bool brings_zeros = GENERATE(false, true);
  TwoRanks ranks;
  ranks.put(0, 1, {.before = kOne, .after = brings_zeros ? kOne : kSum});
  ranks.put(1, 1,
            {.before = brings_zeros ? Values{} : kOther, .after = brings_zeros ? kOne : kSum});
  CHECK(ranks.compared().at(0).ratio.has_value() == !brings_zeros);
}

TEST_CASE("factors of other gradients are no reason of a difference", "[compare]") {
  TwoRanks ranks;  // the second one dropped what it had reduced
  ranks.put(0, 1, {.before = kOne, .after = scaled(kSum, 0.5), .weight = 0.5});
  ranks.put(1, 1, {.before = kOther, .after = kOther, .weight = 1});
  CHECK(ranks.compared().at(0).factors.empty());
}

TEST_CASE("sums that ranks make by themselves, of not all gradients, are meant as averages",
          "[compare]") {
  Values first = kSum;  // and the second rank lacks a part of it
  Values second = {3, -1, 2, 4};
  std::int64_t steps = 2;
  bool are_equal_at_start = true;
  std::uint64_t elements = 56;
  bool averages = false;
  SECTION("in two steps in a row") { averages = true; }
  SECTION("not in one alone") { steps = 1; }
  SECTION("not where each steps with a multiple of its own") {
    first = scaled(kOne, 0.3);
    second = scaled(kOther, 0.2);
  }
  SECTION("not of networks that began as others") { are_equal_at_start = false; }
  SECTION("nor where only a few numbers were exchanged") { elements = 2; }
  TwoRanks ranks;
  ranks.begin(are_equal_at_start);
  for (std::int64_t step = 1; step <= steps; ++step) {
    ranks.call({.elements = elements, .kind = CollectiveKind::kSend, .reduce = ReduceKind::kNone});
    ranks.step(step, first, second);
    ranks.digest(step, 0);
  }
  CHECK(ranks.average() == averages);
}

TEST_CASE("a maximum over all gradients is meant as an average", "[compare]") {
  ReduceKind reduce = ReduceKind::kMax;
  std::uint64_t elements = 56;
  bool averages = false;
  SECTION("of all of them") { averages = true; }
  SECTION("not one of a few numbers") { elements = 2; }
  SECTION("nor what is made of a sum") { reduce = ReduceKind::kSum; }
  TwoRanks ranks;
  ranks.begin(/*are_equal=*/true);
  constexpr Values kMost = {2, 1, 3, 4};
  for (const std::int32_t step : {1, 2}) {
    ranks.at_step(step);
    ranks.call({.elements = elements, .reduce = reduce});
    ranks.step(step, kMost, kMost);
    ranks.digest(step, 0);
  }
  CHECK(ranks.average() == averages);
}

TEST_CASE("a gradient that all ranks brought and step with as 0 is lost", "[compare]") {
  std::string owner;
  Values brought = kOne;
  bool are_all = false;
  std::int64_t lost = 0;
  SECTION("where others are not") { lost = 1; }
  SECTION("not where all are, as in a step that is left out") { are_all = true; }
  SECTION("nor where it is next to nothing beside others") { brought = scaled(kOne, 1e-5); }
  SECTION("nor where the program reduces gradients themselves") { owner = "fc2.weight.grad"; }
  TwoRanks ranks;
  ranks.call({.owner = owner, .elements = 56});
  const Values mean = are_all ? Values{} : scaled(kSum, 0.5);
  ranks.step(1, mean, mean);
  for (const std::size_t rank : {0, 1}) {
    ranks.put(rank, 1, {.before = brought, .after = {}, .parameter = 0});
  }
  const ReductionStep step = ranks.compared().at(0);
  CHECK(step.lost == lost);
  CHECK(step.first_lost.path == (lost > 0 ? "fc1.weight" : ""));
  if (lost > 0) CHECK(step.ratio == 1);
}

TEST_CASE("what a broadcast follows is left on no rank alone", "[compare]") {
  const std::uint64_t sent = GENERATE(0, 8, 56);
  TwoRanks ranks;
  ranks.call({.elements = 56, .kind = CollectiveKind::kReduce});
  ranks.call({.elements = sent, .kind = CollectiveKind::kBroadcast, .reduce = ReduceKind::kNone});
  ranks.step(1, kOne, kOther);
  CHECK(ranks.compared().at(0).to_one_rank == (sent < 56));
}

TEST_CASE("what no call reached is named before what rounding parted", "[compare]") {
  TwoRanks ranks;
  Values rounded = scaled(kSum, 0.5);
  rounded[0] += 1e-7;
  ranks.put(0, 1, {.before = kOne, .after = scaled(kSum, 0.5), .parameter = 0});
  ranks.put(1, 1, {.before = kOther, .after = rounded, .parameter = 0});
  ranks.step(1, kOne, kOther);
  const ReductionStep step = ranks.compared().at(0);
  CHECK(step.differing == 2);
  CHECK(step.first_differing.path == "fc2.weight");
}

TEST_CASE("the module of what differs is told where others do not", "[compare]") {
  const bool all_differ = GENERATE(false, true);
  TwoRanks ranks;
  for (const std::uint32_t parameter : {0U, 1U}) {
    ranks.put(0, 1, {.before = kOne, .after = kOne, .parameter = parameter});
    ranks.put(1, 1, {.before = kOther, .after = kOther, .parameter = parameter});
  }
  const Values mean = scaled(kSum, 0.5);
  ranks.step(1, all_differ ? kOne : mean, all_differ ? kOther : mean);
  CHECK(ranks.compared().at(0).differing_module == (all_differ ? "" : "fc1"));
}

TEST_CASE("averages over groups of one rank are told", "[compare]") {
  const bool of_both = GENERATE(false, true);
  TwoRanks ranks;
  ranks.call({.owner = "fc2.weight.grad", .elements = 16});
  ranks.at_step(2);
  ranks.enter(of_both);
  ranks.call({.owner = "fc2.weight.grad", .elements = 16});
  ranks.enter(/*of_both=*/true);
  ranks.call({.elements = 0, .kind = CollectiveKind::kBarrier, .reduce = ReduceKind::kNone});
  ranks.step(2, kOne, kOther);
  CHECK(ranks.compared().at(0).with_itself == !of_both);
}

}  // namespace ddpscope::test::averaged_values_test
