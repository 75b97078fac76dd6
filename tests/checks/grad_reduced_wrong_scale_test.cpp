#include "tests/support/catch.h"
#include "tests/support/compared_ranks.h"

namespace ddpscope::test::grad_reduced_wrong_scale_test {
namespace {
using namespace test;  // NOLINT(google-build-using-namespace)
constexpr char kId[] = "grad-reduced-wrong-scale";

/// Of four ranks, with gradients that are `ratio` times their mean.
std::vector<ReductionStep> steps_with(double ratio, std::int64_t count = 12) {
  std::vector<ReductionStep> steps;
  for (std::int64_t step = 1; step <= count; ++step) {
    steps.push_back({.step = step,
                     .sampled = 6,
                     .calls = 2,
                     .backwards = 1,
                     .reduces_last = true,
                     .ratio = ratio,
                     .residual = 2e-8,
                     .noise = 1e-8,
                     .worst = {.model = "Net", .path = "fc.weight", .dtype = "float32"}});
  }
  return steps;
}

Findings judged(const std::vector<ReductionStep>& steps, bool averages = true) {
  RanksComparedEvent run = four_ranks();
  run.cohorts[0].averages = averages;
  run.cohorts[0].reductions = steps;
  return judge_run(run, kId);
}
}  // namespace

TEST_CASE("grad-reduced-wrong-scale tells a sum that nobody divides", "[check]") {
  const Findings findings = judged(steps_with(4));
  REQUIRE(findings.size() == 1);
  const Finding& finding = findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.what == "reduced gradients are 4 × the mean over 4 ranks (sum_not_divided)");
  CHECK(finding.step == 1);
  CHECK(finding.last_step == 12);
  CHECK(finding.phase == Phase::kReduce);
  CHECK(finding.ranks == RankList{0, 1, 2, 3});
  CHECK(finding.model == "Net");
  CHECK(finding.subject.empty());
  CHECK(fact_in(finding, "cause") == text_of("sum_not_divided"));
  CHECK(fact_in(finding, "measured_ratio") == FactValue(4.0));
  CHECK(finding.fixes.at(0).text.starts_with("`grad.div_(world_size)`"));
}

TEST_CASE("grad-reduced-wrong-scale names what is 0 on all ranks in three steps", "[check]") {
  const std::int64_t count = GENERATE(2, 3);
  auto steps = steps_with(1);
  for (std::int64_t i = 0; i < count; ++i) {
    ReductionStep& step = steps[static_cast<std::size_t>(i)];
    step.lost = 1;
    step.first_lost = {.model = "Net", .path = "fc2.weight", .dtype = "float32"};
  }
  const Findings findings = judged(steps);
  REQUIRE(std::ssize(findings) == count - 2);
  if (findings.empty()) return;
  CHECK(findings[0].severity == Severity::kWarning);
  CHECK(findings[0].subject == "weight");
  CHECK(findings[0].what.starts_with("1 of 6 sampled gradients is 0 on all 4 ranks at step()"));
  CHECK(findings[0].why.starts_with("fc2.weight arrived as other values"));
  CHECK(fact_in(findings[0], "cause") == text_of("lost"));
}

TEST_CASE("grad-reduced-wrong-scale is a note on sums of parts of one loss", "[check]") {
  auto steps = steps_with(4);
  for (ReductionStep& step : steps) step.brings_activations = step.shares_activations = true;
  steps[7].shares_activations = GENERATE(true, false);  // else with stages that average apart
  const Finding finding = judged(steps).at(0);
  const bool may_be_right = steps[7].shares_activations;
  CHECK(finding.severity == (may_be_right ? Severity::kNote : Severity::kWarning));
  CHECK(finding.fixes.at(0).text.starts_with("none, where each rank") == may_be_right);
  CHECK(fact_in(finding, "cause") == text_of("sum_not_divided"));
}

TEST_CASE("grad-reduced-wrong-scale tells loss and gradient divided by the backwards", "[check]") {
  const std::int64_t backwards = GENERATE(4, 5);  // four ranks
  auto steps = steps_with(1.0 / static_cast<double>(backwards));
  for (ReductionStep& step : steps) {
    step.backwards = backwards;
    step.divides_by_period = true;
  }
  const Findings findings = judged(steps);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].severity == Severity::kWarning);
  CHECK(fact_in(findings[0], "cause") == text_of("accumulation"));
  CHECK(fact_in(findings[0], "period") == FactValue(backwards));
}

TEST_CASE("grad-reduced-wrong-scale names what is a sum beside means", "[check]") {
  const std::int64_t undivided = GENERATE(1, 2);
  auto steps = steps_with(1);
  for (ReductionStep& step : steps) {
    step.ratio.reset();
    step.undivided = undivided;
    step.first_undivided = {.model = "Net", .path = "head.bias", .dtype = "float32"};
  }
  const Findings findings = judged(steps);
  REQUIRE(findings.size() == 1);
  const Finding& finding = findings[0];
  CHECK(finding.what == std::to_string(undivided) +
                            " of 6 reduced gradients are 4 × the mean over 4 ranks, the others "
                            "are the mean (sum_not_divided)");
  CHECK(finding.why.ends_with("; the first of these is head.bias"));
  CHECK(finding.module_path == (undivided == 1 ? "head" : ""));
  CHECK(fact_in(finding, "first_path") == text_of("head.bias"));
  CHECK(fact_in(finding, "measured_ratio") == FactValue(4.0));
  CHECK(fact_in(finding, "parameters_count") == FactValue(undivided));
}

TEST_CASE("grad-reduced-wrong-scale tells a mean that is divided again", "[check]") {
  const Findings findings = judged(steps_with(0.25));
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].what == "reduced gradients are 0.25 × the mean over 4 ranks (divided_twice)");
}

TEST_CASE("grad-reduced-wrong-scale tells a group's mean that is divided by the whole run",
          "[check]") {
  RanksComparedEvent run = four_ranks();
  run.world_size = 16;
  run.cohorts[0].reductions = steps_with(4.0 / 16);
  Findings findings = judge_run(run, kId);
  REQUIRE(findings.size() == 1);
  CHECK(fact_in(findings[0], "cause") == text_of("divided_twice"));
  CHECK(findings[0].why ==
        "2 collectives were issued in that step over 4 of the 16 ranks, and the result was "
        "divided by 16, or by 4 twice");
  CHECK(findings[0].fixes.at(0).text.starts_with("average over a process group of all ranks"));
  CHECK(findings[0].fixes.at(1).text.starts_with(
      "divide by the 4 ranks of the group, not by the 16 of the run"));

  run.world_size = 32;
  run.cohorts[0].reductions = steps_with(4.0 / 32);
  findings = judge_run(run, kId);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].why.ends_with("over 4 of the 32 ranks, and the result was divided by 32"));
  for (ReductionStep& step : run.cohorts[0].reductions) step.backwards = 8;
  CHECK(judge_run(run, kId).empty());
}

TEST_CASE("grad-reduced-wrong-scale tells what is no multiple of the sum", "[check]") {
  auto steps = steps_with(1);
  for (ReductionStep& step : steps) step.residual = step.noise = 0.4;
  const Findings findings = judged(steps);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].severity == Severity::kError);
  CHECK(findings[0].what ==
        "the reduced gradient is no multiple of the sum over 4 ranks, by 0.4 of its norm "
        "(not_linear)");
  CHECK(findings[0].module_path == "fc");
  CHECK(findings[0].subject == "weight");
}

TEST_CASE("grad-reduced-wrong-scale names no single parameter where several are wrong", "[check]") {
  auto steps = steps_with(1);
  for (ReductionStep& step : steps) {
    step.residual = step.noise = 0.4;
    step.not_linear = 5;
    step.ratio.reset();
  }
  const Findings findings = judged(steps);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].what ==
        "5 of 6 sampled gradients are no multiple of the sum over 4 ranks after the reduction "
        "(not_linear)");
  CHECK(findings[0].module_path.empty());
  CHECK(fact_in(findings[0], "measured_ratio") == text_of("absent"));
  CHECK(findings[0].fixes.back().text.starts_with("intended"));
}

TEST_CASE("grad-reduced-wrong-scale tells gradients of one rank that all step with", "[check]") {
  const bool averages = GENERATE(true, false);
  auto steps = steps_with(1);
  for (ReductionStep& step : steps) {
    step.residual = step.noise = 0.4;
    step.calls = 6;
    step.of_one_rank = step.sampled = 6;
    step.that_rank = 2;
  }
  SECTION("of all gradients") {
    const Findings findings = judged(steps, averages);
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].severity == Severity::kError);
    CHECK(findings[0].what ==
          "6 sampled gradients are on all 4 ranks those that rank 2 computed (not_linear)");
    CHECK(findings[0].fixes.at(0).text.starts_with("all-reduce each gradient"));
  }
  SECTION("not of some of them, where nothing is averaged") {
    for (ReductionStep& step : steps) step.of_one_rank = 5;
    CHECK(judged(steps, averages).empty() == !averages);
  }
}

TEST_CASE("grad-reduced-wrong-scale names an operation that is no sum", "[check]") {
  auto steps = steps_with(1);
  for (ReductionStep& step : steps) {
    step.residual = step.noise = 0.4;
    step.calls = 6;
    step.reduce = ReduceKind::kMax;
  }
  const Finding finding = judged(steps).at(0);
  CHECK(finding.why ==
        "6 collectives were issued in that step, and most of what they reduced they reduced by "
        "max, not by sum or average");
  CHECK(finding.fixes.at(0).text.starts_with("reduce by `c10d::ReduceOp::SUM`"));
}

TEST_CASE("grad-reduced-wrong-scale tells the one step that went wrong", "[check]") {
  auto steps = steps_with(1);
  SECTION("by the sum") { steps[8].noise = 1e-4; }
  SECTION("by little more than four ranks round") { steps[8].noise = 1e-6; }
  SECTION("by bits of one rank") {
    steps[8].differing = 1;
    steps[8].first_differing = {.model = "Net", .path = "fc.weight", .dtype = "float32"};
  }
  const Findings findings = judged(steps);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].severity == Severity::kError);
  CHECK(findings[0].step == 9);
  CHECK(findings[0].occurrences == 1);
  CHECK(findings[0].subject == "weight");
  CHECK(fact_in(findings[0], "cause") == text_of("not_linear"));
}

TEST_CASE("grad-reduced-wrong-scale tells a step that some ranks left out", "[check]") {
  auto steps = steps_with(1);
  steps[8].differing = 6;
  steps[8].first_differing = {.model = "Net", .path = "fc.weight", .dtype = "float32"};
  steps[8].backwards_per_rank = {{"2", {1}}, {"1", {0, 2, 3}}};
  const Findings findings = judged(steps);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].why ==
        "the backwards before that step() were 2 on rank 1, 1 on ranks 0,2-3: some ranks left out "
        "a step(), or had other parts to add, and now step with the gradients of other batches");
  CHECK(findings[0].fixes.at(0).text ==
        "reduce the decision to leave out a step() with a maximum over the ranks");
  CHECK(fact_in(findings[0], "value_per_rank") ==
        list_of({std::string("1: 2"), std::string("0,2-3: 1")}));
}

TEST_CASE("grad-reduced-wrong-scale stays silent", "[check]") {
  std::vector<ReductionStep> steps = steps_with(1);
  bool averages = true;
  SECTION("on the mean") {}
  SECTION("on a factor that is neither of these") { steps = steps_with(3); }
  SECTION("in fewer than three steps") { steps = steps_with(4, 2); }
  SECTION("where gradients are divided by the number of backwards") {
    steps = steps_with(0.25);
    for (ReductionStep& step : steps) step.backwards = 4;
  }
  SECTION("where the ranks average nothing") {
    steps = steps_with(4);
    averages = false;
  }
  SECTION("on sums in 16 bits") {
    for (ReductionStep& step : steps) step.worst.dtype = "bfloat16";
    steps[8].residual = steps[8].noise = 0.05;
  }
  SECTION("on rounding that shows in one step more than in others") { steps[8].noise = 3e-7; }
  SECTION("on what rounding of four ranks can leave") { steps[8].noise = 9e-7; }
  SECTION("on a step without any call, which is not reduced") {
    steps[8].differing = 6;
    steps[8].calls = 0;
  }
  SECTION("on one odd step of few") {
    steps = steps_with(1, 5);
    steps[3].noise = 1e-3;
  }
  SECTION("on gradients that are not reduced: grad-not-reduced") {
    for (ReductionStep& step : steps) step.differing = 6;
  }
  CHECK(judged(steps, averages).empty());
}

}  // namespace ddpscope::test::grad_reduced_wrong_scale_test
