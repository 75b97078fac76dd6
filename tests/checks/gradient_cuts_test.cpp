// What autograd-cut takes for a cut, and what it does not need operators for.
#include "tests/support/catch.h"
#include "tests/support/cut_steps.h"

namespace ddpscope::test::gradient_cuts_test {
namespace {
/// A loop without an optimizer: 23 is made of the trunk's weight 1, and the loss of 23.
struct OwnLoop : CutSteps {
  OwnLoop() { reached = {2, 23}; }
  void step(const std::vector<std::int64_t>& shape) {
    detach(/*from=*/1, /*to=*/22);
    program.op({.name = "aten::sub",
                .inputs = {22},
                .outputs = {23},
                .requires_grad = false,
                .shape = shape});
    loss({23});
    program.backward(reached);
  }
};
}  // namespace

TEST_CASE("a parameter that the program replaced by a new leaf is not cut", "[check]") {
  OwnLoop own;
  SECTION("of its shape: an update by hand") {
    for (int i = 0; i < 3; ++i) own.step({8, 32});
    CHECK(own.program.findings.empty());
  }
  SECTION("but a leaf of another shape takes nothing from it") {
    for (int i = 0; i < 2; ++i) own.step({4, 4});
    REQUIRE(own.program.findings.size() == 1);
    CHECK(cause_of(own.program.findings[0]) == "detach");
  }
}

TEST_CASE("what takes the shape of a parameter alone reads nothing of it", "[check]") {
  Program program("grad-missing");
  program.attach(1, {{.id = 1, .path = "body.weight"}, {.id = 2, .path = "head.weight"}});
  program.optimizer(1, {1, 2});
  for (int i = 0; i < 5; ++i) {
    program.op({.name = "aten::mul", .inputs = {1, 21}, .outputs = {22}});
    program.op({.name = "aten::zeros_like", .inputs = {2}, .outputs = {23}, .grad_mode = false});
    program.backward({1});
    program.step(1);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(cause_of(program.findings[0]) == "not_used");
}

TEST_CASE("a switched off grad mode is known where nothing was recorded", "[check]") {
  CutSteps steps;
  steps.owned();
  const auto refuse = [&](bool grad_mode) {
    steps.program.send_now(ErrorEvent{
        .at = {},
        .message = "element 0 of tensors does not require grad and does not have a grad_fn",
        .grad_mode = grad_mode});
  };
  refuse(true);
  CHECK(steps.program.findings.empty());
  refuse(false);
  REQUIRE(steps.program.findings.size() == 1);
  const Finding& finding = steps.program.findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(cause_of(finding) == "grad_mode_off");
  CHECK(fact_of<std::int64_t>(finding, "starved_parameters_count") == 2);
  CHECK(finding.why ==
        "grad mode is off in the thread that called backward: forward recorded no graph");
}

TEST_CASE("a loss that was computed and dropped is told beside a detach", "[check]") {
  CutSteps steps;
  steps.owned();
  const bool is_loss = GENERATE(true, false);
  for (int i = 0; i < 2; ++i) {
    steps.trunk();
    steps.program.op({.name = is_loss ? "aten::mse_loss" : "aten::tanh",
                      .inputs = {21, 20},
                      .outputs = {23},
                      .stack = 40,
                      .shape = {is_loss ? 1 : 8}});
    steps.detach();
    steps.loss({22});
    steps.end_step();
  }
  REQUIRE(steps.program.findings.size() == 1);
  const Finding& finding = steps.program.findings[0];
  CHECK(cause_of(finding) == "detach");
  CHECK(finding.why.ends_with("; aten::mse_loss at train.cpp:40 made one number of it with a "
                              "gradient path, and that entered no loss") == is_loss);
  CHECK(finding.fixes.at(0).text.starts_with(is_loss ? "add what aten::mse_loss returned"
                                                     : "remove detach()"));
  CHECK(finding.sites.size() == (is_loss ? 2 : 1));
}

TEST_CASE("an operator that returns its input as it is ends no path", "[check]") {
  Program program("grad-missing");
  program.attach(1, {{.id = 1, .path = "a.weight"}, {.id = 2, .path = "c.weight"}});
  program.optimizer(1, {1, 2});
  for (int i = 0; i < 5; ++i) {
    program.op({.name = "aten::mm", .inputs = {20, 1}, .outputs = {21}});
    program.op({.name = "aten::relu", .inputs = {21}, .outputs = {22}});
    program.op({.name = "aten::resolve_conj", .inputs = {22}, .outputs = {22}});
    program.op({.name = "aten::mul", .inputs = {22, 20}, .outputs = {23}, .grad_mode = false});
    program.op({.name = "aten::mm", .inputs = {23, 2}, .outputs = {24}});
    program.backward({2});
    program.step(1);
    program.zero_grad(1);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].op == "aten::relu");
  CHECK(program.findings[0].why.starts_with("what follows aten::relu [8, 32] went on without"));
}

TEST_CASE("a target under a guard is not why a loss has no graph", "[check]") {
  CutSteps steps;
  steps.reached = {};
  steps.program.attach(2, {{.id = 11, .path = "trunk.weight"}});
  steps.program.op(
      {.name = "aten::addmm", .inputs = {20, 11}, .outputs = {31}, .grad_mode = false});
  steps.trunk();
  steps.detach();
  steps.program.op(
      {.name = "aten::mse_loss", .inputs = {22, 31}, .outputs = {kLoss}, .requires_grad = false});
  steps.program.leaf(kLoss);
  steps.program.roots = {kLoss};
  steps.program.roots_are_leaves = true;
  steps.program.backward({kLoss});
  REQUIRE_FALSE(steps.program.findings.empty());
  CHECK(steps.program.findings[0].why.starts_with(
      "backward began at a leaf: the loss lost its graph by aten::detach"));
}

}  // namespace ddpscope::test::gradient_cuts_test
