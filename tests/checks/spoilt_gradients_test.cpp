// Gradients that arrived finite, and that the program made NaN.
#include "checks/spread_nonfinite.h"
#include "tests/support/catch.h"
#include "tests/support/nonfinite_steps.h"

namespace ddpscope::test::spoilt_gradients_test {
namespace {
constexpr char kCheck[] = "numeric-nonfinite-gradient";
}

TEST_CASE("numeric-nonfinite-gradient names what wrote a gradient after backward", "[check]") {
  const bool of_ranks = GENERATE(false, true);
  NonfiniteSteps run("numeric-nonfinite-*", /*optimizer=*/true, /*world_size=*/of_ranks ? 2 : 1);
  run.finite_step();
  run.loss(0.5);
  run.backward();
  GradientsSpoiltEvent spoilt{.at = run.program.now(), .before_average = of_ranks};
  spoilt.gradients = {{.tensor = kHead, .values = nans(64, 64)},
                      {.tensor = kConv, .values = nans(4096, 4096)}};
  spoilt.first = Write{.op = "aten::div_", .by = {.step = 2, .stack = 88}};
  std::string why = "first of 2 parameters with such a gradient in this step; ";
  SECTION("once") {
    spoilt.writes = 1;
    why += "aten::div_ (train.cpp:88) wrote it since";
  }
  SECTION("and again") {
    spoilt.writes = 3;
    spoilt.last = Write{.op = "aten::mul_", .by = {.step = 2}};
    why +=
        "3 writes changed it since, the first by aten::div_ (train.cpp:88), the last by aten::mul_";
  }
  run.program.send_now(spoilt);
  run.step();
  REQUIRE(run.program.findings.size() == 1);
  const Finding& finding = run.program.findings[0];
  CHECK(finding.id == kCheck);
  CHECK(finding.step == 2);
  CHECK(finding.op == (spoilt.writes == 1 ? "aten::div_" : ""));
  CHECK(finding.what ==
        std::string("the gradient was not finite ") +
            (of_ranks ? "when it was averaged over the ranks" : "when the optimizer stepped") +
            ", though backward left it finite: 64 of 64 elements are NaN");
  why += of_ranks ? "; averaging spreads it to every rank, and the optimizer stepped with it"
                  : "; the optimizer stepped with it";
  CHECK(finding.why == why);
  CHECK(fact_of<std::string>(finding, "cause") == "written_after_backward");
  CHECK(finding.sites.size() == 1);
  // The weights are spoilt by that: what forward makes of them is no news.
  run.bad_forward(overflow());
  run.step();
  CHECK(run.program.findings.size() == 1);
}

TEST_CASE("numeric-nonfinite-gradient knows no rank of what an average brought", "[check]") {
  NonfiniteSteps run(kCheck, /*optimizer=*/true, /*world_size=*/2);
  run.finite_step();
  run.loss(0.5);
  run.backward();
  run.program.send(std::make_unique<CollectiveEvent>(
      CollectiveEvent{.at = run.program.now(), .group_size = 2, .averages = true}));
  GradientsSpoiltEvent spoilt{.at = run.program.now()};
  spoilt.gradients = {{.tensor = kHead, .values = nans(64, 64)}};
  spoilt.first = Write{.op = "aten::div_", .by = {.step = 2}};
  SECTION("where the program did not repair it") {
    run.program.send_now(spoilt);
    run.step();
    REQUIRE(run.program.findings.size() == 1);
    const Finding& finding = run.program.findings[0];
    CHECK_FALSE(spreads_over_ranks(finding));
    CHECK(finding.op.empty());
    CHECK(finding.fixes.front().text.starts_with("skip the step on all ranks"));
    CHECK(finding.why ==
          "it is the only parameter with such a gradient in this step; any rank may have made it "
          "so; the optimizer stepped with it");
  }
  SECTION("and its own write beside the averages of others is its own") {
    spoilt.before_average = true;
    run.program.send_now(spoilt);
    run.step();
    REQUIRE(run.program.findings.size() == 1);
    CHECK(spreads_over_ranks(run.program.findings[0]));
  }
  SECTION("where it is repaired before the step it is a note") {
    run.program.send_now(spoilt);
    run.program.send_now(GradientsRepairedEvent{.at = {}, .tensors = {kHead}});
    run.step();
    REQUIRE(run.program.findings.size() == 1);
    CHECK(run.program.findings[0].severity == Severity::kNote);
  }
}

TEST_CASE("numeric-nonfinite-gradient leaves what a clip spread to the check of clips", "[check]") {
  const bool is_spread = GENERATE(true, false);
  NonfiniteSteps run(kCheck);
  run.finite_step();
  run.loss(0.5);
  run.backward();
  run.program.send_now(GradientsScaledEvent{
      .factor = is_spread ? NAN : 0.5, .by_tensor = true, .gradients = 2, .first = kHead});
  GradientsSpoiltEvent spoilt{.at = run.program.now()};
  spoilt.gradients = {{.tensor = kHead, .values = nans(64, 64)}};
  run.program.send_now(spoilt);
  run.step();
  CHECK(run.program.findings.empty() == is_spread);
}

}  // namespace ddpscope::test::spoilt_gradients_test
