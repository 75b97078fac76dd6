// optim-stale-gradient where a gradient is exactly 0, or was cleared before the first step alone.
#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::stale_zero_test {
namespace {
const std::vector<Registered> kNet = {{.id = 1, .path = "a.weight"}, {.id = 2, .path = "a.bias"}};

/// A backward in which the gradient of parameter 2 is 0, or no longer; nothing clears it.
void backward(Program& program, bool is_zero = true) {
  program.in_backward = [&program, is_zero] {
    program.send_now(
        GradientValuesEvent{.tensor = 1, .values = {.elements = 4, .absmax = 1}, .zero_count = 1});
    program.send_now(
        GradientValuesEvent{.tensor = 2, .values = {.elements = 4}, .zero_count = is_zero ? 4 : 0});
  };
  program.backward({1, 2});
  if (is_zero) program.clear({2}, GradientBefore::kZero);
}
}  // namespace

TEST_CASE("optim-stale-gradient takes no gradient that is always 0 for cleared", "[check]") {
  Program program("optim-stale-gradient");
  program.attach(1, kNet);
  const bool by_optimizer = GENERATE(true, false);
  if (by_optimizer) program.optimizer(1, {1, 2});
  for (int i = 0; i < 6; ++i) {
    backward(program);
    by_optimizer ? program.step(1) : program.write({1, 2});
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(cause_of(program.findings[0]) == "never_zeroed");
  CHECK(program.findings[0].step == 4);
  CHECK(program.findings[0].what ==
        "gradients of earlier steps are still in all 2 parameters (8 elements; never_zeroed)");
}

TEST_CASE("optim-stale-gradient reports once what is 0 at first", "[check]") {
  Program program("optim-stale-gradient");
  program.attach(1, kNet);
  program.optimizer(1, {1, 2});
  for (int i = 0; i < 8; ++i) {
    backward(program, /*is_zero=*/i == 0);
    program.step(1);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(fact_of<std::int64_t>(program.findings[0], "parameters_count") == 2);
}

TEST_CASE("optim-stale-gradient reports once where parameters come later", "[check]") {
  Program program("optim-stale-gradient");
  program.attach(1, kNet);
  program.optimizer(1, {1, 2});
  for (int i = 0; i < 12; ++i) {
    program.backward(i < 3 ? std::vector<TensorId>{1} : std::vector<TensorId>{1, 2});
    program.step(1);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(cause_of(program.findings[0]) == "never_zeroed");
}

TEST_CASE("optim-stale-gradient knows gradients that were set to 0 past LibTorch", "[check]") {
  Program program("optim-stale-gradient");
  program.attach(1, kNet);
  program.optimizer(1, {1, 2});
  for (int i = 0; i < 6; ++i) {
    backward(program, /*is_zero=*/false);
    program.step(1);
    program.clear({2}, GradientBefore::kZero);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(cause_of(program.findings[0]) == "outside_optimizer");
  CHECK(program.findings[0].subject == "weight");
}

TEST_CASE("optim-stale-gradient takes no clearing before the loop for one of a step", "[check]") {
  Program program("optim-stale-gradient");
  program.attach(1, kNet);
  program.optimizer(1, {1, 2});
  const bool by_optimizer = GENERATE(true, false);
  if (!by_optimizer || GENERATE(true, false)) program.backward({1, 2});
  by_optimizer ? program.zero_grad(1) : program.clear({1, 2});
  const auto train = [&program](int steps) {
    for (int i = 0; i < steps; ++i) {
      program.backward({1, 2});
      program.step(1);
    }
  };
  train(31);
  SECTION("up to its 32nd step") { train(1); }
  SECTION("up to the end of the run") { program.exit(); }
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == Severity::kError);
  CHECK(cause_of(program.findings[0]) == "never_zeroed");
  CHECK(program.findings[0].what ==
        "gradients of earlier steps are still in all 2 parameters (8 elements; never_zeroed)");
}

TEST_CASE("optim-stale-gradient waits for the second clearing of a loop of few steps", "[check]") {
  Program program("optim-stale-gradient");
  program.attach(1, kNet);
  program.optimizer(1, {1, 2});
  for (int i = 0; i < 26; ++i) {
    if (i % 20 == 0) program.zero_grad(1);
    program.backward({1, 2});
    program.step(1);
    if (i == 19) CHECK(program.findings.empty());
  }
  program.exit();
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == Severity::kWarning);
  CHECK(cause_of(program.findings[0]) == "not_each_step");
}

}  // namespace ddpscope::test::stale_zero_test
