// Whether gradients were averaged, by what they hold.
#include "tests/exchange/reducing_ranks.h"

namespace ddpscope::test {

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

}  // namespace ddpscope::test
