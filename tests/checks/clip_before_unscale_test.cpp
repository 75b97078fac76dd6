#include <cmath>
#include <limits>

#include "tests/support/catch.h"
#include "tests/support/clip_steps.h"
#include "tests/support/events.h"

namespace ddpscope::test::clip_before_unscale_test {
namespace {
constexpr double kScale = 65536;
constexpr TensorId kLoss = 50;

/// Steps of a loop that multiplies its loss.
struct Loop {
  Program program{"clip-before-unscale"};
  bool surveyed = true;

  Loop() {
    program.attach(1, {{.id = 1, .path = "a.weight"}, {.id = 2, .path = "b.weight"}});
    program.optimizer(1, {1, 2});
    program.roots = {kLoss};
  }

  void backward(double scale) {
    program.zero_grad(1);
    if (surveyed) {
      program.op(
          {.name = "aten::mul", .inputs = {40}, .outputs = {kLoss}, .module = 0, .factor = scale});
      program.backward({1, 2});
    } else {
      program.backward_without_survey({1, 2});
    }
  }

  void clip_then_unscale(double scale, double true_norm, double limit) {
    backward(scale);
    clip(program, limit, true_norm * scale);
    test::scale(program, 1 / scale);
    program.step(1);
  }
};
}  // namespace

TEST_CASE("clip-before-unscale reports a clip of gradients that carry the scale", "[check]") {
  Loop loop;
  loop.clip_then_unscale(kScale, 3.2, 1);
  CHECK(loop.program.findings.empty());
  loop.clip_then_unscale(kScale, 3.2, 1);
  REQUIRE(loop.program.findings.size() == 1);
  const Finding& finding = loop.program.findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.step == 2);
  CHECK(finding.what ==
        "gradients were clipped to norm 1 before they were divided by the loss scale 65536");
  CHECK(finding.why ==
        "norm before the clip 2.1e+05, true norm 3.2: factor 4.8e-06 instead of 0.31");
  CHECK(fact_of<double>(finding, "loss_scale") == kScale);
  CHECK(fact_of<double>(finding, "max_norm") == 1);
  CHECK(fact_of<double>(finding, "norm_seen") == Approx(3.2 * kScale));
  CHECK(fact_of<double>(finding, "norm_unscaled") == Approx(3.2));
  CHECK(fact_of<double>(finding, "factor") == Approx(1 / 3.2 / kScale));
  CHECK(fact_of<std::string>(finding, "order") == "clip, unscale, step");
}

TEST_CASE("clip-before-unscale follows a scale that is adapted between surveys", "[check]") {
  Loop loop;
  loop.backward(kScale);
  scale(loop.program, 1 / kScale);
  loop.program.step(1);
  loop.surveyed = false;
  loop.clip_then_unscale(2 * kScale, 3.2, 1);
  loop.clip_then_unscale(4 * kScale, 3.2, 1);
  REQUIRE(loop.program.findings.size() == 1);
  CHECK(fact_of<double>(loop.program.findings[0], "loss_scale") == 4 * kScale);
}

namespace {
struct KeptScales {
  std::vector<double> scales = {1024, 2048, 4096};
  double taken_off = 1;  ///< of a copy, before the clip
  double limit = 1;
  bool by_scale = false;  ///< the limit is multiplied with it
};

Findings of_kept_scales(const KeptScales& how) {
  Loop loop;
  for (const double scale : how.scales) {
    loop.backward(scale);
    arrived(loop.program, 3.2 * scale);
    clip(loop.program, how.limit * (how.by_scale ? scale : 1),
         3.2 * scale / (how.taken_off == 1 ? 1 : scale));
    loop.program.step(1);
  }
  return loop.program.findings;
}
}  // namespace

TEST_CASE("clip-before-unscale reports a scale that nothing takes off", "[check]") {
  const Findings findings = of_kept_scales({});
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].severity == Severity::kError);
  CHECK(findings[0].what ==
        "gradients were clipped to norm 1 and stepped with, and nothing divided out the loss scale "
        "4096");
  CHECK(fact_of<std::string>(findings[0], "order") == "clip, step");
}

TEST_CASE("clip-before-unscale is silent on steps without a division", "[check]") {
  KeptScales how;
  SECTION("of a loss that has one weight") { how.scales = {1024, 1024, 1024}; }
  SECTION("of a small one") { how.scales = {2, 4, 8}; }
  SECTION("of one that is no power of two") { how.scales = {1000, 2000, 4000}; }
  SECTION("where a copy was divided before the clip") { how.taken_off = 2; }
  SECTION("of a limit that has the scale, too") { how.by_scale = true; }
  SECTION("of one step") { how.scales.resize(2); }
  CHECK(of_kept_scales(how).empty());
}

TEST_CASE("clip-before-unscale knows a clip whose factor the program computes", "[check]") {
  Loop loop;
  for (const double norm : {3.0, 4.0, 5.0, 6.0}) {
    loop.backward(1000);
    arrived(loop.program, norm * 1000);
    scale(loop.program, 1 / (norm * 1000));
    scale(loop.program, 1e-3);
    loop.program.step(1);
  }
  REQUIRE(loop.program.findings.size() == 1);
  CHECK(fact_of<double>(loop.program.findings[0], "max_norm") == Approx(1));
}

namespace {
void clip_then_copy(Loop& loop, double scale, double divided_by, const std::vector<TensorId>& of) {
  loop.backward(scale);
  clip(loop.program, 1, 3.2 * scale);
  for (const TensorId id : of) {
    loop.program.send_now(ScaledCopyEvent{.gradient_of = id, .factor = 1 / divided_by});
  }
  loop.program.step(1);
}
}  // namespace

TEST_CASE("clip-before-unscale knows gradients that are divided into new ones", "[check]") {
  Loop loop;
  for (int i = 0; i < 2; ++i) clip_then_copy(loop, kScale, kScale, {1, 2});
  REQUIRE(loop.program.findings.size() == 1);
  CHECK(fact_of<double>(loop.program.findings[0], "loss_scale") == kScale);
}

TEST_CASE("clip-before-unscale knows the gradient that a backward begins with", "[check]") {
  Loop loop;
  loop.program.root_gradient = kScale;
  for (int i = 0; i < 2; ++i) {
    loop.program.zero_grad(1);
    loop.program.backward({1, 2});
    clip(loop.program, 1, 3.2 * kScale);
    scale(loop.program, 1 / kScale);
    loop.program.step(1);
  }
  REQUIRE(loop.program.findings.size() == 1);
}

TEST_CASE("clip-before-unscale is silent on copies for another end, or of few", "[check]") {
  Loop loop;
  Program& program = loop.program;
  program.attach(1, {{.id = 1, .path = "a"},
                     {.id = 2, .path = "b"},
                     {.id = 3, .path = "c"},
                     {.id = 4, .path = "d"}});
  for (int i = 0; i < 3; ++i) clip_then_copy(loop, kScale, 3, {1, 2});
  program.optimizer(1, {1, 2, 3, 4});
  for (int i = 0; i < 3; ++i) {
    program.op({.name = "aten::mul", .inputs = {40}, .outputs = {kLoss}, .factor = kScale});
    program.zero_grad(1);
    program.backward({1, 2, 3, 4});
    clip(program, 1, 3.2 * kScale, 4);
    program.send_now(ScaledCopyEvent{.gradient_of = 1, .factor = 1 / kScale});
    program.step(1);
  }
  CHECK(program.findings.empty());
}

TEST_CASE("clip-before-unscale stays silent", "[check]") {
  Loop loop;
  Program& program = loop.program;
  SECTION("on limits that are multiplied by the scale") {
    const double limit = GENERATE(0.5, 1.0, 5.0, 50.0);
    for (int i = 0; i < 3; ++i) loop.clip_then_unscale(kScale, 3.2, limit * kScale);
  }
  SECTION("on such limits within twice the norm, of a small scale") {
    for (int i = 0; i < 3; ++i) loop.clip_then_unscale(2, 3.2, 3.3);
  }
  SECTION("on a clip per layer after the scale was divided out") {
    for (int i = 0; i < 3; ++i) {
      loop.backward(kScale);
      scale(program, 1 / kScale);
      clip(program, 1, 3.2, 1, 1);
      clip(program, 1, 2.1, 1, 2);
      program.step(1);
    }
  }
  SECTION("on two optimizers of which one clips before the other divides") {
    program.attach(1, {{.id = 1, .path = "a"}, {.id = 2, .path = "b"}, {.id = 3, .path = "c"}});
    program.optimizer(2, {3});
    for (int i = 0; i < 3; ++i) {
      program.op({.name = "aten::mul", .inputs = {40}, .outputs = {kLoss}, .factor = kScale});
      program.zero_grad(1);
      program.zero_grad(2);
      program.backward({1, 2, 3});
      scale(program, 1 / kScale);
      clip(program, 1e-4, 3.2);
      scale(program, 1 / kScale, 1, 3);
      program.step(1);
      program.step(2);
    }
  }
  SECTION("on scale 1") {
    for (int i = 0; i < 3; ++i) loop.clip_then_unscale(1, 3.2, 1);
  }
  SECTION("on a division by something else than the scale") {
    for (int i = 0; i < 3; ++i) {
      loop.backward(kScale);
      clip(program, 1, 3.2 * kScale);
      scale(program, 1.0 / 3);
      program.step(1);
    }
  }
  SECTION("on one cycle of it") {
    loop.clip_then_unscale(kScale, 3.2, 1);
    loop.backward(kScale);
    scale(program, 1 / kScale);
    clip(program, 1, 3.2);
    program.step(1);
  }
  SECTION("on fewer than half of the gradients") {
    program.attach(1, {{.id = 1, .path = "a"}, {.id = 2, .path = "b"}, {.id = 3, .path = "c"}});
    program.members(1, {{1, 2, 3}});
    for (int i = 0; i < 3; ++i) {
      program.op({.name = "aten::mul", .inputs = {40}, .outputs = {kLoss}, .factor = kScale});
      program.zero_grad(1);
      program.backward({1, 2, 3});
      clip(program, 1, 3.2 * kScale, 1);
      scale(program, 1 / kScale, 3);
      program.step(1);
    }
  }
  SECTION("on a norm that is not finite") {
    for (int i = 0; i < 3; ++i) {
      loop.clip_then_unscale(kScale, std::numeric_limits<double>::infinity(), 1);
    }
  }
  SECTION("where lost events hide what happened") {
    loop.clip_then_unscale(kScale, 3.2, 1);
    program.drop_events();
    loop.clip_then_unscale(kScale, 3.2, 1);
  }
  CHECK(program.findings.empty());
}

}  // namespace ddpscope::test::clip_before_unscale_test
