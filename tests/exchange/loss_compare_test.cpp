#include <functional>
#include <limits>

#include "tests/exchange/compared_rings.h"

namespace ddpscope::test::loss_compare_test {
namespace {
constexpr char kCriterion[] = "aten::cross_entropy_loss 5 criterion";
using Targets = std::function<double(std::size_t rank, std::int64_t step)>;

struct LossRun {
  std::int64_t steps = 60;
  std::size_t ranks = 2;
  bool averages = true;
  std::function<std::string(std::size_t rank)> kind = [](std::size_t) { return kCriterion; };
  std::vector<std::int32_t> backwards = {2, 2, 2, 2};  // of a step, by rank
  std::vector<double> loss_scale = {0, 0, 0, 0};       // in each 8th step
};

std::vector<LossWeights> weights_of(const Targets& targets, const LossRun& how = {}) {
  TestRun run(static_cast<std::int64_t>(how.ranks));
  for (std::size_t rank = 0; rank < how.ranks; ++rank) {
    const std::string kind = how.kind(rank);
    run[rank].writer.put(Blob{.kind = BlobKind::kLoss, .number = 0, .step = 1, .bytes = kind});
    for (std::int64_t step = 1; step <= how.steps; ++step) {
      run[rank].digest({.step = step,
                        .loss_scale = step % 8 == 1 ? how.loss_scale[rank] : 0,
                        .backwards = how.backwards[rank] * static_cast<std::int32_t>(step),
                        .averages = how.averages,
                        .targets = static_cast<float>(targets(rank, step))});
    }
  }
  const RanksComparedEvent event = run.compared();
  REQUIRE(event.cohorts.size() == 1);
  return event.cohorts[0].loss_weights;
}

double nine_to_one(std::size_t rank, std::int64_t) { return rank == 0 ? 9 : 1; }
}  // namespace

TEST_CASE("ranks whose losses are means of far different counts are told after ten steps",
          "[compare]") {
  const auto told = weights_of(nine_to_one, {.steps = 10});
  REQUIRE(told.size() == 1);
  CHECK(told[0].step == 10);
  CHECK(told[0].steps == 10);
  CHECK(told[0].ratio == 9);
  CHECK(told[0].targets == std::vector<double>{9, 1});
  CHECK(told[0].op == "aten::cross_entropy_loss");
  CHECK(told[0].module == "criterion");
  CHECK(weights_of(nine_to_one, {.steps = 9}).empty());
}

TEST_CASE("a smaller difference is told after fifty steps, with the step of the median",
          "[compare]") {
  const Targets grows = [](std::size_t rank, std::int64_t step) {
    return rank == 1 ? 100.0 : 150 + static_cast<double>(step);
  };
  CHECK(weights_of(grows, {.steps = 49}).empty());
  const auto told = weights_of(grows, {.steps = 60});
  REQUIRE(told.size() == 1);
  CHECK(told[0].step == 50);
  CHECK(told[0].steps == 50);
  CHECK(told[0].at_step == 25);
  CHECK(told[0].ratio == Approx(1.75));
  CHECK(told[0].backwards == 2);
}

TEST_CASE("ranks that average over other numbers of micro-batches are told after ten steps",
          "[compare]") {
  const Targets alike = [](std::size_t, std::int64_t) { return 16.0; };
  const auto told =
      weights_of(alike, {.steps = 12, .backwards = {4, 2}, .loss_scale = {0.25, 0.5}});
  REQUIRE(told.size() == 1);
  CHECK(told[0].steps == 10);
  CHECK(told[0].ratio == 2);
  CHECK(told[0].targets == std::vector<double>{64, 32});
}

TEST_CASE("ranks with other numbers of micro-batches are silent", "[compare]") {
  LossRun run = {.backwards = {4, 2}, .loss_scale = {0.25, 0.5}};
  double first = 16;
  SECTION("where one number divides all of them") { run.loss_scale = {1.0 / 3, 1.0 / 3}; }
  SECTION("or that of the rank with most of them") { run.loss_scale = {0.25, 0.25}; }
  SECTION("or none does") { run.loss_scale = {1, 1}; }
  SECTION("where these have as many targets together") { first = 8; }
  SECTION("where the ranks average nothing") { run.averages = false; }
  CHECK(
      weights_of([first](std::size_t rank, std::int64_t) { return rank == 0 ? first : 16.0; }, run)
          .empty());
}

TEST_CASE("of four ranks the largest and the smallest count decide", "[compare]") {
  const auto told = weights_of(
      [](std::size_t rank, std::int64_t) { return rank == 2 ? 10.0 : 40.0; }, {.ranks = 4});
  REQUIRE(told.size() == 1);
  CHECK(told[0].ratio == 4);
}

TEST_CASE("nothing is said of losses", "[compare]") {
  SECTION("of equal counts") {
    CHECK(weights_of([](std::size_t, std::int64_t) { return 32; }).empty());
  }
  SECTION("whose counts differ by less than half") {
    CHECK(weights_of([](std::size_t rank, std::int64_t) { return rank == 0 ? 32 : 24; }).empty());
  }
  SECTION("of which the last batch of each epoch is short on one rank") {
    const auto batches = GENERATE(2, 3, 10);
    CHECK(weights_of([batches](std::size_t rank, std::int64_t step) {
            return rank == 1 && step % batches == 0 ? 2 : 32;
          }).empty());
  }
  SECTION("of other tasks") {
    LossRun how;
    how.kind = [](std::size_t rank) { return "aten::nll_loss " + std::to_string(rank + 3) + " "; };
    CHECK(weights_of(nine_to_one, how).empty());
  }
  SECTION("that a rank does not tell") {
    CHECK(weights_of([](std::size_t rank, std::int64_t) { return rank == 0 ? 9 : 0; }).empty());
  }
  SECTION("whose counts are no numbers") {
    const double none = GENERATE(-1.0, std::numeric_limits<double>::infinity(),
                                 std::numeric_limits<double>::quiet_NaN());
    CHECK(weights_of([none](std::size_t rank, std::int64_t) {
            return rank == 0 ? 9 : none;
          }).empty());
  }
  SECTION("that each rank weighs by its targets") {
    CHECK(weights_of(nine_to_one, {.loss_scale = {0.9, 0.1}}).empty());
    CHECK(weights_of(nine_to_one, {.loss_scale = {0.5, 0.5}}).size() == 1);
    CHECK(weights_of(nine_to_one, {.loss_scale = {0.1, 0.9}}).size() == 1);
  }
  SECTION("of ranks that average nothing") {
    CHECK(weights_of(nine_to_one, {.averages = false}).empty());
  }
}

}  // namespace ddpscope::test::loss_compare_test
