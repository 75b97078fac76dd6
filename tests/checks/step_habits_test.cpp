// Steps with gradients that were applied, and optimizers that are built anew for each step.
#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::step_habits_test {
namespace {
struct Loop {
  Program program{"optim-update-size"};

  Loop() {
    program.attach(
        1, {{.id = 1, .path = "body.weight", .shape = {4, 2}}, {.id = 2, .path = "body.bias"}});
    program.optimizer(1, {1, 2});
  }
  void step(OptimizerId optimizer = 1) {
    program.backward({1, 2});
    program.step(optimizer);
  }
  void step_again(OptimizerId optimizer = 1) {
    program.repeats = true;
    program.step(optimizer);
    program.repeats = false;
  }
  /// Each with an optimizer of its own, from the number `first` on.
  void steps_of_new(OptimizerId first, int count) {
    for (int i = 0; i < count; ++i) {
      program.optimizer(first + static_cast<OptimizerId>(i), {1, 2});
      step(first + static_cast<OptimizerId>(i));
    }
  }
};
}  // namespace

TEST_CASE("optim-update-size tells a step() that is called twice, once", "[check]") {
  Loop loop;
  for (int i = 0; i < 20; ++i) {
    CHECK(loop.program.findings.size() == (i < 8 ? 0 : 1));
    loop.step();
    loop.step_again();
  }
  const Finding& finding = loop.program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(cause_of(finding) == "applied_twice");
  CHECK(finding.what ==
        "step() was called again with the gradients that it had applied, behind each of the last 8 "
        "steps (applied_twice)");
  CHECK(finding.why ==
        "no backward came before 8 of 16 steps of SGD, nor did anything else change a gradient: "
        "each of them moves the parameters twice");
  CHECK(fact_of<std::int64_t>(finding, "elements") == 12);
}

TEST_CASE("optim-update-size counts a step() that is called more often", "[check]") {
  Loop loop;
  for (int i = 0; i < 8; ++i) {
    loop.step();
    loop.step_again();
    loop.step_again();
  }
  REQUIRE(loop.program.findings.size() == 1);
  CHECK(loop.program.findings[0].why.find("15 of 23 steps of SGD") != std::string::npos);
}

TEST_CASE("optim-update-size is silent on gradients that are applied again", "[check]") {
  Loop loop;
  SECTION("now and then") {
    for (int i = 0; i < 60; ++i) {
      loop.step();
      if (i % 8 != 0) loop.step_again();
    }
  }
  SECTION("by another optimizer") {
    loop.program.optimizer(2, {1, 2});
    for (int i = 0; i < 60; ++i) {
      loop.step();
      loop.step_again(2);
    }
  }
  SECTION("as far as it knows, where steps between went unseen") {
    for (int i = 0; i < 60; ++i) {
      loop.step();
      loop.program.rest(1, 4);
      loop.step_again();
    }
  }
  SECTION("in a line search") {
    for (int i = 0; i < 60; ++i) {
      loop.program.step(1, /*with_closure=*/true);
      loop.step_again();
    }
  }
  CHECK(loop.program.findings.empty());
}

TEST_CASE("optim-update-size tells an optimizer that is built anew for each step", "[check]") {
  Loop loop;
  std::string why =
      "its averages begin at zero each time: with one gradient behind them a step is "
      "as large for small gradients as for large ones";
  SECTION("of averages") { loop.program.optimizer_type = "torch::optim::Adam"; }
  SECTION("of momentum") {
    loop.program.group_options = {{.momentum = 0.9, .learning_rate = 0.1}};
    why = "its momentum begins at zero each time: it never adds up";
  }
  loop.steps_of_new(2, 15);
  CHECK(loop.program.findings.empty());
  loop.steps_of_new(17, 40);
  REQUIRE(loop.program.findings.size() == 1);
  CHECK(cause_of(loop.program.findings[0]) == "state_lost");
  CHECK(loop.program.findings[0].what.starts_with("each of the last 16 steps was the only one of"));
  CHECK(loop.program.findings[0].why == why);
}

TEST_CASE("optim-update-size is silent on new optimizers", "[check]") {
  Loop loop;
  loop.program.optimizer_type = "torch::optim::Adam";
  SECTION("without a state") {
    loop.program.optimizer_type = "torch::optim::SGD";
    loop.steps_of_new(2, 60);
  }
  SECTION("of the program's own") {
    loop.program.optimizer_type = "Adam";
    loop.steps_of_new(2, 60);
  }
  SECTION("that step twice or more") {
    for (OptimizerId id = 2; id < 60; ++id) {
      loop.steps_of_new(id, 1);
      loop.step(id);
    }
  }
  SECTION("of which some steps went unseen") {
    for (OptimizerId id = 2; id < 60; ++id) {
      loop.steps_of_new(id, 1);
      loop.program.rest(id, 8);
    }
  }
  SECTION("of parameters that the program restores, as in a loop within its loop") {
    for (OptimizerId id = 2; id < 60; ++id) {
      loop.steps_of_new(id, 1);
      loop.program.op({.name = "aten::copy_", .inputs = {1, 2}, .outputs = {1}});
    }
  }
  CHECK(loop.program.findings.empty());
}

}  // namespace ddpscope::test::step_habits_test
