#include "checks/spread_nonfinite.h"
#include "tests/support/catch.h"
#include "tests/support/compared_ranks.h"
#include "tests/support/nonfinite_steps.h"

namespace ddpscope::test::numeric_nonfinite_gradient_test {
namespace {
constexpr char kCheck[] = "numeric-nonfinite-gradient";

void bad_gradients(NonfiniteSteps& run) {
  run.loss(0.5);
  run.program.in_backward = [&run] {
    run.gradient(kHead, nans(1, 64));
    run.gradient(kConv, infs(7, 4096));
  };
  run.backward();
}
}  // namespace

TEST_CASE("numeric-nonfinite-gradient names the first parameter", "[check]") {
  NonfiniteSteps run(kCheck);
  run.finite_step();
  bad_gradients(run);
  CHECK(run.program.findings.empty());
  run.step();
  REQUIRE(run.program.findings.size() == 1);
  const Finding& finding = run.program.findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.phase == Phase::kBackward);
  CHECK(finding.step == 2);
  CHECK(finding.module_path == "head");
  CHECK(finding.subject == "weight");
  CHECK(finding.what == "the gradient was not finite: 1 of 64 elements is NaN");
  CHECK(finding.why ==
        "first of 2 parameters with such a gradient in this step; the optimizer stepped with it");
  CHECK(fact_of<std::string>(finding, "first_parameter") == "head.weight");
  CHECK(fact_of<std::int64_t>(finding, "parameters_count") == 2);
  CHECK(fact_of<std::int64_t>(finding, "nan_count") == 1);
  CHECK(fact_of<std::int64_t>(finding, "inf_count") == 0);
  CHECK_FALSE(fact_of<bool>(finding, "skipped"));
}

TEST_CASE("numeric-nonfinite-gradient speaks of the rank where ranks average", "[check]") {
  NonfiniteSteps run(kCheck, /*optimizer=*/true, /*world_size=*/2);
  bad_gradients(run);
  run.step();
  REQUIRE(run.program.findings.size() == 1);
  CHECK(run.program.findings[0].what ==
        "the gradient was not finite when it reached this rank's parameter: 1 of 64 elements is "
        "NaN");
  CHECK(run.program.findings[0].fixes[0].text ==
        "skip the step on all ranks by a reduced flag (maximum), not on one rank");
}

TEST_CASE("numeric-nonfinite-gradient does not know the rank where hooks rest in an average",
          "[check]") {
  const bool is_averaged = GENERATE(true, false);
  NonfiniteSteps run("numeric-nonfinite-gradient,numeric-nonfinite-backward", /*optimizer=*/true,
                     /*world_size=*/2);
  const Stamp now = run.program.now();
  run.program.send(std::make_unique<CollectiveEvent>(
      CollectiveEvent{.at = now, .group_size = 2, .averages = is_averaged}));
  SpoiltStepEvent spoilt{.at = now};
  spoilt.gradients.push_back({.at = now, .tensor = kHead, .values = nans(4, 64)});
  run.program.send_now(spoilt);
  REQUIRE(run.program.findings.size() == (is_averaged ? 1 : 2));
  const Finding& gradient = run.program.findings[is_averaged ? 0 : 1];
  CHECK(gradient.id == kCheck);
  CHECK(spreads_over_ranks(gradient) != is_averaged);
  CHECK((gradient.what.find(" after the average over the ranks: ") != std::string::npos) ==
        is_averaged);
}

TEST_CASE("numeric-nonfinite-gradient takes a backward without optimizers as a step", "[check]") {
  NonfiniteSteps run(kCheck, /*optimizer=*/false);
  bad_gradients(run);
  REQUIRE(run.program.findings.size() == 1);
  bad_gradients(run);
  CHECK(run.program.findings.size() == 1);
}

TEST_CASE("numeric-nonfinite-gradient keeps the gradient of an earlier micro-batch", "[check]") {
  NonfiniteSteps run(kCheck);
  bad_gradients(run);
  run.loss(0.5);
  run.backward();
  run.step();
  REQUIRE(run.program.findings.size() == 1);
  CHECK(run.program.findings[0].subject == "weight");
}

TEST_CASE("numeric-nonfinite-gradient is a note where the program cleared it", "[check]") {
  NonfiniteSteps run(kCheck);
  run.finite_step();
  bad_gradients(run);
  SECTION("with zero_grad()") { run.program.zero_grad(1); }
  SECTION("by hand") {
    run.program.send_now(ZeroGradientsEvent{
        .at = {}, .optimizer = 1, .members = {{.tensor = kHead}, {.tensor = kConv}}});
  }
  SECTION("by nan_to_num_") {
    run.program.send_now(GradientsRepairedEvent{.at = {}, .tensors = {kConv, kHead}});
  }
  run.program.step(1);
  REQUIRE(run.program.findings.size() == 1);
  const Finding& finding = run.program.findings[0];
  CHECK(finding.severity == Severity::kNote);
  CHECK(
      finding.why ==
      "first of 2 parameters with such a gradient in this step; the program cleared or repaired it "
      "before the optimizer stepped");
  CHECK(fact_of<bool>(finding, "skipped"));
}

TEST_CASE("numeric-nonfinite-gradient reports what was not cleared", "[check]") {
  NonfiniteSteps run(kCheck);
  run.finite_step();
  bad_gradients(run);
  SECTION("in part") {
    run.program.send_now(
        ZeroGradientsEvent{.at = {}, .optimizer = 1, .members = {{.tensor = kHead}}});
  }
  SECTION("or repaired in part") {
    run.program.send_now(GradientsRepairedEvent{.at = {}, .tensors = {kConv}});
  }
  SECTION("by another optimizer") {
    run.program.optimizer(2, {50});
    run.program.zero_grad(2);
  }
  run.program.step(1);
  REQUIRE(run.program.findings.size() == 1);
  CHECK(run.program.findings[0].severity == Severity::kError);
}

TEST_CASE("numeric-nonfinite-gradient is explained by where it came from", "[check]") {
  NonfiniteSteps run("numeric-nonfinite-*");
  SECTION("forward") { run.bad_forward(overflow()); }
  SECTION("backward") { run.bad_backward(log_node()); }
  run.step();
  const Findings all = run.program.judge().findings();
  REQUIRE(all.size() == 2);
  CHECK(all[1].id == kCheck);
  CHECK(all[1].caused_by == all[0].fingerprint);
  CHECK(all[1].causal_role == CausalRole::kCascade);
}

TEST_CASE("numeric-nonfinite-gradient stays silent", "[check]") {
  NonfiniteSteps run(kCheck);
  SECTION("on overflow that a loss scaler skips") {
    run.finite_step();
    for (int i = 0; i < 3; ++i) {
      bad_gradients(run);
      run.program.zero_grad(1);
      run.finite_step();
    }
  }
  SECTION("on steps of an optimizer that does not hold the parameter") {
    run.finite_step();
    run.program.optimizer(2, {50});
    bad_gradients(run);
    run.program.step(2);
  }
  SECTION("on what nobody takes") {
    run.finite_step();
    bad_gradients(run);
    run.program.optimizer(2, {50});
    for (int i = 0; i < 3; ++i) {
      run.loss(0.5);
      run.backward();
      run.program.step(2);
    }
    run.program.step(1);
  }
  SECTION("on gradients that are not defined") {
    run.program.gradient_undefined(kHead);
    run.finite_step();
  }
  SECTION("on a frozen parameter and on a leaf that is no parameter") {
    run.program.leaf(60);
    run.loss(0.5);
    run.program.in_backward = [&run] { run.gradient(60); };
    run.backward();
    run.step();
  }
  SECTION("after a step whose events are lost") {
    bad_gradients(run);
    run.program.drop_events();
    run.step();
  }
  CHECK(run.program.findings.empty());
}

namespace {
RanksComparedEvent spoilt_by_rank_two() {
  RanksComparedEvent run = four_ranks();
  run.cohorts[0].nonfinite = {{.step = 6,
                               .ranks = {2},
                               .nan_count = 1,
                               .model = "Net",
                               .path = "head.weight",
                               .what = "1 of 64 elements is NaN"}};
  return run;
}
}  // namespace

TEST_CASE("numeric-nonfinite-gradient names the rank over all ranks", "[check]") {
  const Findings findings = judge_run(spoilt_by_rank_two(), kCheck);
  REQUIRE(findings.size() == 1);
  const Finding& finding = findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.rank == 2);
  CHECK(finding.step == 6);
  CHECK(finding.ranks == RankList{2});
  CHECK(finding.module_path == "head");
  CHECK(finding.subject == "weight");
  CHECK(finding.what == "1 of 64 elements is NaN");
  CHECK(finding.why ==
        "averaging spreads it to every rank; of ranks 0-3 it was so on rank 2 alone");
  CHECK(fact_in(finding, "cause") == text_of("before_averaging"));
  CHECK(fact_in(finding, "origin_ranks") == ranks_of({2}));
}

TEST_CASE("numeric-nonfinite-gradient leaves it to the rank where that has said it", "[check]") {
  const std::int64_t rank = GENERATE(0, 2);
  Finding own{.id = kCheck, .severity = Severity::kError, .rank = rank, .step = 7};
  const RanksJudgement judgement =
      judge_ranks(spoilt_by_rank_two(), {.enabled = {kCheck}, .of_ranks = {&own}});
  CHECK(judgement.findings.size() == (rank == 2 ? 0 : 1));
}

TEST_CASE("numeric-nonfinite-gradient says nothing of ranks that average nothing", "[check]") {
  RanksComparedEvent run = spoilt_by_rank_two();
  exchange_parameters(run);
  CHECK(judge_run(run, kCheck).empty());
}

}  // namespace ddpscope::test::numeric_nonfinite_gradient_test
