// Weights that ranks add up now and then.
#include "tests/exchange/reducing_ranks.h"

namespace ddpscope::test::summed_weights_test {
namespace {
constexpr Values kNext = {1.1, -2, 3, 0.6};  // kOne, a step later

/// Of weights that two ranks add up after steps 3 and 6, times these factors.
std::vector<std::int64_t> steps_of(double first, double second) {
  TestRun run(2);
  const auto put = [](TestRank& rank, std::int64_t step, const Values& values) {
    const std::vector<GradientSketch> sketches(3, sketch_of(values));
    rank.writer.put(Blob{BlobKind::kSketches, 0, step, encode(sketches)});
  };
  for (std::size_t rank = 0; rank < 2; ++rank) {
    run[rank].list(test_list());
    for (const std::int64_t step : {0, 2, 3, 4, 5, 6, 7}) {
      const bool is_equal = step == 0 || step == 4 || step == 7;
      const double factor = step == 4 ? first : second;
      put(run[rank], step, is_equal ? scaled(kNext, factor) : kOne);
      run[rank].digest({.step = step, .structure = 7, .parameters = is_equal ? 5 : 6 + rank});
    }
  }
  return run.compared().cohorts.at(0).summed_steps;
}
}  // namespace

TEST_CASE("weights that ranks add up and do not divide are known", "[compare]") {
  CHECK(steps_of(2, 2) == std::vector<std::int64_t>{4, 7});
  CHECK(steps_of(1, 1).empty());
  CHECK(steps_of(2, 1).empty());
  CHECK(steps_of(3, 3).empty());
}

}  // namespace ddpscope::test::summed_weights_test
