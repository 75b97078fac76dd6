// Weights that ranks add up now and then.
#include "tests/exchange/reducing_ranks.h"

namespace ddpscope::test::summed_weights_test {
namespace {
constexpr Values kNext = {1.1, -2, 3, 0.6};  // kOne, a step later

/// Of weights that two ranks add up after steps 3, 6 and 9, times these factors.
std::vector<std::int64_t> steps_of(double first, double second, const Values& last = kNext) {
  TestRun run(2);
  const auto put = [](TestRank& rank, std::int64_t step, const Values& values) {
    const std::vector<GradientSketch> sketches(3, sketch_of(values));
    rank.writer.put(Blob{BlobKind::kSketches, 0, step, encode(sketches)});
  };
  for (std::size_t rank = 0; rank < 2; ++rank) {
    run[rank].list(test_list());
    for (const std::int64_t step : {0, 2, 3, 4, 5, 6, 7, 8, 9, 10}) {
      const bool is_equal = step == 0 || step == 4 || step == 7 || step == 10;
      const double factor = step == 4 ? first : second;
      const Values& next = step == 10 ? last : kNext;
      put(run[rank], step, is_equal ? scaled(next, factor) : kOne);
      run[rank].digest({.step = step, .structure = 7, .parameters = is_equal ? 5 : 6 + rank});
    }
  }
  return run.compared().cohorts.at(0).summed_steps;
}
}  // namespace

TEST_CASE("weights that ranks add up and do not divide are known", "[compare]") {
  CHECK(steps_of(2, 2) == std::vector<std::int64_t>{4, 7, 10});
  CHECK(steps_of(1, 1).empty());
  CHECK(steps_of(2, 1).empty());
  CHECK(steps_of(3, 3).empty());
}

TEST_CASE("weights that are summed may take a large step in between", "[compare]") {
  CHECK(steps_of(2, 2, {1.2, -1.6, 3.1, 0.9}).size() == 3);
  CHECK(steps_of(2, 2, {0.7, -1.3, 2, 0.4}).empty());  // nearer to the mean
  CHECK(steps_of(2.5, 2.5).empty());
}

}  // namespace ddpscope::test::summed_weights_test
