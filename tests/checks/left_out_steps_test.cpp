// Steps that ranks which average left out now and then.
#include "tests/support/catch.h"
#include "tests/support/compared_ranks.h"

namespace ddpscope::test::left_out_steps_test {
namespace {
Findings judged(std::vector<ReductionStep> steps) {
  RanksComparedEvent run = four_ranks();
  run.cohorts[0].reductions = std::move(steps);
  return judge_run(run, "grad-not-reduced");
}

ReductionStep left_out() {
  return {.sampled = 6,
          .calls = 4,
          .backwards = 1,
          .reduces_last = true,
          .differing = 6,
          .first_differing = {.model = "Net", .path = "fc.weight", .dtype = "float32"}};
}
}  // namespace

TEST_CASE("grad-not-reduced tells steps that are left out now and then", "[check]") {
  ReductionStep step = left_out();
  std::string why;
  SECTION("without any call") {
    step.calls = 0;
    why = "no collective was issued in that step; so in 2 of 12 compared steps, the last of them ";
  }
  SECTION("with a backward after the average") {
    step.backwards = 2;
    step.reduces_last = false;
    why = "4 collectives were issued in that step and 2 backwards ran before step(): what the last";
  }
  SECTION("by a factor of one rank") {
    step.factors = {{"1", {0}}, {"0.5", {1}}};
    why = "4 collectives were issued in that step, and each rank multiplied its gradients by a fac";
  }
  SECTION("without any backward that accumulates") {
    step.calls = 0;
    step.backwards = 0;
    step.is_counted = true;
    why = "no collective was issued in that step; so in 2 of 12 compared steps, the last of them ";
  }
  SECTION("or not, where no digest tells of the step before") {
    step.calls = 0;
    step.backwards = 0;
  }
  SECTION("or not, where all was reduced") {}
  std::vector<ReductionStep> steps;
  for (std::int64_t number = 1; number <= 12; ++number) {
    steps.push_back(number % 6 == 0 ? step : left_out());
    steps.back().step = number;
    if (number % 6 > 0) steps.back().differing = 0;
  }
  const Findings findings = judged(steps);
  REQUIRE(findings.size() == (why.empty() ? 0 : 1));
  if (why.empty()) return;
  CHECK(findings[0].severity == Severity::kError);
  CHECK(findings[0].step == 6);
  CHECK(findings[0].last_step == 12);
  CHECK(findings[0].occurrences == 2);
  CHECK(findings[0].why.starts_with(why));
}

TEST_CASE("grad-not-reduced leaves one step that was compared to other checks", "[check]") {
  ReductionStep step = left_out();
  step.calls = 0;
  CHECK(judged({step}).empty());
}

}  // namespace ddpscope::test::left_out_steps_test
