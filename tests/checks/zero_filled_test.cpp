#include "tests/support/catch.h"
#include "tests/support/cut_steps.h"

namespace ddpscope::test::zero_filled_test {
namespace {
const std::vector<Registered> kParts = {{.id = 1, .path = "body.weight"},
                                        {.id = 2, .path = "fc4.weight", .shape = {32, 32}},
                                        {.id = 3, .path = "fc4.bias", .shape = {32}}};
}  // namespace

TEST_CASE("autograd-cut is not misled by zeros in place of gradients", "[check]") {
  CutSteps steps;
  const bool are_zeros = GENERATE(true, false);  // else the program computed them
  steps.owned();
  steps.trunk();
  steps.detach();
  steps.dead_loss();
  steps.program.leaf(kLoss);
  steps.program.roots_are_leaves = true;
  steps.program.backward({kLoss});
  steps.program.clear({1, 2}, GradientBefore::kReset);
  if (are_zeros) {
    steps.program.send_now(ZeroGradientsEvent{.at = {}, .optimizer = 1, .members = {{1}, {2}}});
  }
  steps.program.step(1);
  steps.program.zero_grad(1);
  steps.program.backward({kLoss});
  CHECK(steps.program.findings.size() == (are_zeros ? 1 : 0));
}

TEST_CASE("grad-missing takes zeros that the program put there for no gradient", "[check]") {
  Program program("grad-missing");
  program.attach(1, kParts);
  program.optimizer(1, {1, 2, 3});
  std::vector<TensorId> reached = {1};
  bool is_found = false;
  SECTION("of what no backward reaches") { is_found = true; }
  SECTION("but those that a backward brought are its own") { reached = {1, 2, 3}; }
  SECTION("but those of a step stand for no other") {}
  const bool stay_zero = is_found || reached.size() > 1;
  for (int i = 0; i < 5; ++i) {
    program.op({.name = "aten::mm", .inputs = {20, 1}, .outputs = {21}});
    program.backward(reached);
    program.clear({2, 3}, GradientBefore::kReset);
    if (stay_zero || i == 0) {
      program.send_now(ZeroGradientsEvent{.at = {}, .optimizer = 1, .members = {{2}, {3}}});
    }
    program.step(1);
  }
  CHECK(program.findings.size() == (is_found ? 1 : 0));
  if (is_found) CHECK(cause_of(program.findings.at(0)) == "not_used");
}

}  // namespace ddpscope::test::zero_filled_test
