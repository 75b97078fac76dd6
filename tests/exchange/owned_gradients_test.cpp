// Ranks whose optimizers have a part of the parameters each: what their owners step with.
#include "tests/exchange/reducing_ranks.h"

namespace ddpscope::test::owned_gradients_test {
namespace {
/// Two ranks bring kOne and kOther of each parameter. The first steps parameter 2, the second
/// parameter 3.
struct Owners {
  Values first = scaled(kSum, 0.5);  ///< stepped with
  Values second = scaled(kSum, 0.5);
  double weight_of_second = 1;
  bool all_brought = true;
  bool has_other_owner = false;  ///< of parameter 2, with other values
  std::int64_t world = 2;

  std::vector<ReductionStep> steps() const {
    TestRun run(2);
    for (auto& rank : run) rank->list(test_list());
    for (const std::int64_t step : {1, 2, 3}) {
      put(run[0], step, {2, kOne, first}, 1);
      put(run[1], step, {3, kOther, second}, weight_of_second);
      put(run[0], step, {3, kOne, {}}, 1);
      if (has_other_owner) put(run[1], step, {2, kOther, kOther}, weight_of_second);
      if (all_brought) put(run[1], step, {2, kOther, {}}, weight_of_second);
    }
    const RingSet set = open_rings(list_rings(run.dir()), "r1");
    return compare_ranks(set.rings, {.world_size = world}).cohorts.at(0).owned;
  }

 private:
  struct Told {
    std::uint32_t parameter = 0;
    Values before;
    std::optional<Values> after;
  };
  static void put(TestRank& rank, std::int64_t step, const Told& one, double weight) {
    const bool is_left = !one.after.has_value();
    ToldReductions told{.weight = weight, .calls = 1, .gradients = {}};
    told.gradients.push_back({.parameter = one.parameter,
                              .before = sketch_of(one.before),
                              .total = std::nullopt,
                              .after = is_left ? kNoSketch : sketch_of(*one.after),
                              .fingerprint = is_left ? 0U : one.parameter});
    rank.writer.put(Blob{.kind = is_left ? BlobKind::kLeft : BlobKind::kReductions,
                         .number = 0,
                         .step = step,
                         .bytes = encode(told)});
  }
};
}  // namespace

TEST_CASE("Means that each rank steps of its parameters are known", "[compare]") {
  const auto steps = Owners{}.steps();
  REQUIRE(steps.size() == 3);
  CHECK(steps[0].sampled == 2);
  CHECK(steps[0].of_owner == 0);
  CHECK(steps[0].not_linear == 0);
  CHECK(steps[0].differing == 0);
  CHECK(steps[0].ratio.value() == Approx(1));
}

TEST_CASE("A factor of the mean that each rank steps is known", "[compare]") {
  const double factor = GENERATE(0.25, 1.0);
  const auto steps = Owners{.first = scaled(kSum, factor), .second = scaled(kSum, factor)}.steps();
  CHECK(steps.at(0).ratio.value() == Approx(2 * factor));
}

TEST_CASE("Gradients that their owner alone computed are counted", "[compare]") {
  const auto steps = Owners{.first = scaled(kOne, 0.5)}.steps();
  CHECK(steps.at(0).of_owner == 1);
  CHECK(steps[0].not_linear == 0);
  CHECK(steps[0].first_of_owner.path == test_list().tensors[2].path);
  const auto both = Owners{.first = kOne, .second = kOther}.steps();
  CHECK(both.at(0).of_owner == 2);
}

TEST_CASE("What reaches the owner and is no sum is counted", "[compare]") {
  const auto steps = Owners{.second = {5, 5, -2, 1}}.steps();
  CHECK(steps.at(0).not_linear == 1);
  CHECK(steps[0].of_owner == 0);
}

TEST_CASE("Of gradients that some rank did not bring, or weighs, owners tell nothing",
          "[compare]") {
  Owners owners{.first = kOne, .second = kOther};
  SECTION("brought by one") { owners.all_brought = false; }
  SECTION("of two owners that differ") { owners.has_other_owner = true; }
  SECTION("weighed by the ranks") { owners.weight_of_second = 3; }
  SECTION("of ranks without a ring") { owners.world = 3; }
  for (const ReductionStep& step : owners.steps()) CHECK(step.of_owner == 0);
}

}  // namespace ddpscope::test::owned_gradients_test
