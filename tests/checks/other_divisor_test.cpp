// Sums that are divided by another number than that of the ranks, or made twice.
#include "tests/support/catch.h"
#include "tests/support/compared_ranks.h"

namespace ddpscope::test::other_divisor_test {
namespace {
using namespace test;  // NOLINT(google-build-using-namespace)

/// Of four ranks.
std::vector<ReductionStep> steps_divided_by(std::int64_t divisor, std::int64_t count = 12) {
  std::vector<ReductionStep> steps;
  for (std::int64_t step = 1; step <= count; ++step) {
    steps.push_back({.step = step,
                     .sampled = 6,
                     .calls = 6,
                     .backwards = 1,
                     .reduces_last = true,
                     .ratio = 4.0 / static_cast<double>(divisor),
                     .divisor = divisor,
                     .weight = 1.0 / static_cast<double>(divisor),
                     .worst = {.model = "Net", .path = "fc.weight", .dtype = "float32"}});
  }
  return steps;
}

Findings judged(const std::vector<ReductionStep>& steps) {
  RanksComparedEvent run = four_ranks();
  run.cohorts[0].reductions = steps;
  return judge_run(run, "grad-reduced-wrong-scale");
}
}  // namespace

TEST_CASE("grad-reduced-wrong-scale tells another divisor than the number of ranks", "[check]") {
  const Findings findings = judged(steps_divided_by(5));
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].severity == Severity::kWarning);
  CHECK(findings[0].what == "reduced gradients are 0.8 × the mean over 4 ranks (other_divisor)");
  CHECK(findings[0].why ==
        "6 collectives were issued in that step, and what they summed up over 4 ranks is divided "
        "by 5");
  CHECK(findings[0].fixes.at(0).text ==
        "divide by 4, the number of ranks that add up their gradients");
  CHECK(findings[0].occurrences == 12);
}

TEST_CASE("grad-reduced-wrong-scale is a note on a divisor that may be meant", "[check]") {
  auto steps = steps_divided_by(2);
  SECTION("that was not seen") { steps[7].weight = 1; }
  SECTION("beside activations, as of shards of one loss") { steps[7].brings_activations = true; }
  const Findings findings = judged(steps);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].severity == Severity::kNote);
  CHECK(fact_in(findings[0], "cause") == text_of("other_divisor"));
}

TEST_CASE("grad-reduced-wrong-scale knows a divisor beside roundings to 16 bits", "[check]") {
  auto steps = steps_divided_by(2);
  for (ReductionStep& step : steps) step.noise = 0.003;
  steps[2].not_linear = 1;  // of what nearly cancels
  REQUIRE(judged(steps).size() == 1);
}

TEST_CASE("grad-reduced-wrong-scale is silent on divisors", "[check]") {
  auto steps = steps_divided_by(5);
  SECTION("of a few steps") { steps.resize(7); }
  SECTION("that change, as counts do") {
    steps[7].divisor = 7;
    steps[7].ratio = 4.0 / 7;
  }
  SECTION("that some step has not") {
    steps[2].divisor = 0;
    steps[2].ratio = 1;
  }
  SECTION("of what is no multiple of the sum") {
    for (ReductionStep& step : steps) step.noise = 0.006;
    steps[2].not_linear = 1;
  }
  CHECK(judged(steps).empty());
}

TEST_CASE("grad-reduced-wrong-scale says that a sum was summed up again", "[check]") {
  auto steps = steps_divided_by(4);
  for (ReductionStep& step : steps) {
    step.divisor = 0;
    step.ratio = 4;
    step.times_reduced = 2;
  }
  const Findings findings = judged(steps);
  REQUIRE(findings.size() == 1);
  CHECK(fact_in(findings[0], "cause") == text_of("sum_not_divided"));
  CHECK(findings[0].why ==
        "6 collectives were issued in that step, 2 of each gradient, and the result was divided by "
        "the 4 ranks once: what a second call adds up is the sum of all ranks already");
  CHECK(findings[0].fixes.at(0).text == "reduce each gradient once");
  for (ReductionStep& step : steps) step.weight = 1;
  CHECK(judged(steps).at(0).why.ends_with("nothing divides by the number of ranks before step()"));
}

TEST_CASE("grad-not-reduced is a warning beside gathered features", "[check]") {
  RanksComparedEvent run = four_ranks();
  exchange_nothing(run);
  ReductionStep step = differing_step();
  step.as_they_arrived = step.sampled;
  step.of_few_numbers = step.brings_activations = true;
  run.cohorts[0].reductions = {step, step};
  run.cohorts[0].reductions[1].step = 3;
  const Findings findings = judge_run(run, "grad-not-reduced");
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].severity == Severity::kWarning);
  CHECK(findings[0].why.starts_with(
      "4 collectives were issued in that step, of what forwards computed and of few numbers"));
}

}  // namespace ddpscope::test::other_divisor_test
