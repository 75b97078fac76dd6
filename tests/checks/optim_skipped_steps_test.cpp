#include "tests/support/catch.h"
#include "tests/support/clip_steps.h"
#include "tests/support/events.h"

namespace ddpscope::test::optim_skipped_steps_test {
namespace {
constexpr TensorId kLoss = 50;

struct Loop {
  Program program;

  explicit Loop(std::int64_t world_size = 1) : program("optim-skipped-steps", nullptr, world_size) {
    program.attach(1, {{.id = 1, .path = "attn.weight"}, {.id = 2, .path = "head.weight"}});
    program.optimizer(1, {1, 2});
    program.roots = {kLoss};
  }

  /// Gradients that overflow in `overflowing`, and no step.
  void skip(TensorId overflowing = 1) {
    program.zero_grad(1);
    program.backward({1, 2});
    nonfinite(program, overflowing, {.elements = 4, .inf_count = 1});
  }
  void skip_at(double scale) {
    program.op({.name = "aten::mul", .inputs = {40}, .outputs = {kLoss}, .factor = scale});
    skip();
  }
  void step() {
    program.zero_grad(1);
    program.backward({1, 2});
    program.step(1);
  }
};
}  // namespace

TEST_CASE("optim-skipped-steps reports 8 skips in a row once the next gradients come", "[check]") {
  Loop loop;
  loop.step();
  double scale = 65536;
  for (int i = 0; i < 8; ++i, scale /= 2) loop.skip_at(scale);
  CHECK(loop.program.findings.empty());
  loop.step();
  REQUIRE(loop.program.findings.size() == 1);
  const Finding& finding = loop.program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.subject == "SGD");
  CHECK(finding.what ==
        "8 consecutive steps were skipped, loss scale 65536 at the first and 512 at the last");
  CHECK(finding.why == "the first non-finite gradient was that of attn.weight in 8 of these steps");
  CHECK(fact_of<std::int64_t>(finding, "consecutive_count") == 8);
  CHECK(fact_of<double>(finding, "skipped_ratio") == Approx(8.0 / 9));
  CHECK(fact_of<double>(finding, "scale_first") == 65536);
  CHECK(fact_of<double>(finding, "scale_last") == 512);
  CHECK(fact_of<std::string>(finding, "first_parameter") == "attn.weight");
}

TEST_CASE("optim-skipped-steps reports more than 20 percent of 200 steps", "[check]") {
  Loop loop;
  for (int i = 0; i < 50; ++i) {
    loop.skip(i < 10 ? 1 : 2);
    for (int k = 0; k < 3; ++k) loop.step();
  }
  loop.skip();
  loop.step();
  REQUIRE(loop.program.findings.size() == 1);
  const Finding& finding = loop.program.findings[0];
  CHECK(finding.what == "50 of the last 200 steps were skipped");
  CHECK(fact_of<std::string>(finding, "first_parameter") == "head.weight");
  CHECK(fact_of<double>(finding, "skipped_ratio") == 0.25);
}

TEST_CASE("optim-skipped-steps reads the scale from what divides the gradients", "[check]") {
  Loop loop;
  loop.program.roots.clear();  // as in steps without a survey
  for (int i = 0; i < 8; ++i) {
    loop.skip();
    scale(loop.program, 1.0 / 1024);
    scale(loop.program, 0.5);
  }
  loop.step();
  REQUIRE(loop.program.findings.size() == 1);
  CHECK(fact_of<double>(loop.program.findings[0], "scale_first") == 1024);
}

TEST_CASE("optim-skipped-steps takes no number of ranks or micro-batches for the scale",
          "[check]") {
  const auto what_of = [](double first, double divisor, std::int64_t world_size) {
    Loop loop(world_size);
    loop.skip_at(first);
    loop.program.roots.clear();
    for (int i = 0; i < 7; ++i) {
      loop.skip();
      scale(loop.program, 1 / divisor);
    }
    loop.step();
    return loop.program.findings.at(0).what;
  };
  CHECK(what_of(65536, 3, 3) ==
        "8 consecutive steps were skipped, loss scale 65536 in one of them");
  CHECK(what_of(65536, 3, 1).ends_with("in one of them"));
  CHECK(what_of(4096, 4, 4).ends_with("in one of them"));
  CHECK(what_of(4096, 1024, 4).ends_with("4096 at the first and 1024 at the last"));
  CHECK(what_of(1, 4, 1) == "8 consecutive steps were skipped");
}

TEST_CASE("optim-skipped-steps takes what is not finite before or after the gradient", "[check]") {
  Loop loop;
  for (int i = 0; i < 9; ++i) {
    loop.program.zero_grad(1);
    loop.program.send_now(BackwardEvent{});
    nonfinite(loop.program, 2, {.elements = 4, .inf_count = 1});
    loop.program.send(GradientEvent{.at = loop.program.now(), .tensor = 2});
    loop.program.send(GradientEvent{.at = loop.program.now(), .tensor = 1});
  }
  REQUIRE(loop.program.findings.size() == 1);
  CHECK(fact_of<std::string>(loop.program.findings[0], "first_parameter") == "head.weight");
}

TEST_CASE("optim-skipped-steps counts each optimizer by itself", "[check]") {
  Program program("optim-skipped-steps");
  program.attach(1, {{.id = 1, .path = "a.weight"}, {.id = 2, .path = "b.weight"}});
  program.optimizer(1, {1});
  program.optimizer(2, {2});
  for (int i = 0; i < 9; ++i) {
    program.zero_grad(1);
    program.zero_grad(2);
    program.backward({1, 2});
    nonfinite(program, 2, {.elements = 4, .nan_count = 1});
    program.step(1);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].what == "8 consecutive steps were skipped");
  CHECK(fact_of<std::string>(program.findings[0], "first_parameter") == "b.weight");
}

TEST_CASE("optim-skipped-steps sees gradients whose float32 copies are stepped", "[check]") {
  Program program("optim-skipped-steps");
  program.attach(1, {{.id = 1, .path = "a.weight"}, {.id = 2, .path = "b.weight"}});
  const bool holds_copies = GENERATE(true, false);
  if (!holds_copies) program.attach(2, {{.id = 11, .path = "c.weight"}});
  program.optimizer(1, {11, 12});
  for (int i = 0; i < 9; ++i) {
    program.clear({1, 2});
    program.backward({1, 2});
    nonfinite(program, 2, {.elements = 4, .inf_count = 1});
    program.write({1, 2});
  }
  REQUIRE(program.findings.size() == (holds_copies ? 1 : 0));
  if (holds_copies) CHECK(program.findings[0].what == "8 consecutive steps were skipped");
}

TEST_CASE("optim-skipped-steps takes no closure for skipped steps", "[check]") {
  Program program("optim-skipped-steps");
  program.attach(1, {{.id = 1, .path = "a.weight"}});
  const bool is_first = GENERATE(true, false);
  if (is_first) program.optimizer_type = "torch::optim::LBFGS";
  program.optimizer(1, {1});
  if (!is_first) program.step(1, /*with_closure=*/true);
  for (int i = 0; i < 20; ++i) {
    program.zero_grad(1);
    program.backward({1});
    nonfinite(program, 1, {.elements = 4, .nan_count = 1});
  }
  program.step(1, /*with_closure=*/true);
  CHECK(program.findings.empty());
}

TEST_CASE("optim-skipped-steps stays silent", "[check]") {
  Loop loop;
  Program& program = loop.program;
  SECTION("on 7 skips after the start") {
    for (int i = 0; i < 7; ++i) loop.skip();
    for (int i = 0; i < 210; ++i) loop.step();
  }
  SECTION("on micro-batches whose gradients add up") {
    for (int i = 0; i < 40; ++i) {
      program.backward({1, 2});
      if (i == 3) nonfinite(program, 1, {.elements = 4, .inf_count = 1});
    }
    program.step(1);
  }
  SECTION("on programs that leave steps out on purpose") {
    for (int i = 0; i < 20; ++i) {
      program.zero_grad(1);
      program.backward({1, 2});
      scale(program, 0.5);
    }
    loop.step();
  }
  SECTION("on gradients that are not finite and stepped with") {
    for (int i = 0; i < 20; ++i) {
      loop.skip();
      program.step(1);
    }
  }
  SECTION("on a fifth of the steps") {
    for (int i = 0; i < 60; ++i) {
      loop.skip();
      for (int k = 0; k < 4; ++k) loop.step();
    }
  }
  SECTION("where lost events hide what happened") {
    for (int i = 0; i < 6; ++i) loop.skip();
    program.drop_events();
    for (int i = 0; i < 6; ++i) loop.skip();
    loop.step();
  }
  CHECK(program.findings.empty());
}

}  // namespace ddpscope::test::optim_skipped_steps_test
