// Losses without the graph that they should have: of another network, under a guard, frozen.
#include "tests/support/catch.h"
#include "tests/support/cut_steps.h"

namespace ddpscope::test::graphless_loss_test {
namespace {
constexpr char kRefused[] =
    "element 0 of tensors does not require grad and does not have a grad_fn";

/// A generator, 1, and a critic, 2, with an optimizer each. The generator's loss, which the critic
/// computes from 21, has no backward.
void forget_backward(Program& program, int rounds) {
  program.attach(1, {{.id = 1, .path = "g.weight"}});
  program.attach(2, {{.id = 2, .path = "d.weight"}});
  program.optimizer(1, {1});
  program.optimizer(2, {2});
  for (int i = 0; i < rounds; ++i) {
    program.op({.name = "aten::mm", .inputs = {20, 1}, .outputs = {21}});
    program.op({.name = "aten::detach", .inputs = {21}, .outputs = {22}, .requires_grad = false});
    program.op({.name = "aten::mm", .inputs = {22, 2}, .outputs = {kLoss}});
    program.roots = {kLoss};
    program.backward({2});
    program.step(2);
    program.op({.name = "aten::mm", .inputs = {21, 2}, .outputs = {31}});
    program.step(1);
    program.zero_grad(2);
  }
}
}  // namespace

TEST_CASE("a loss of the generator without a backward is missed, and is no cut", "[check]") {
  Program program("grad-missing,autograd-cut");
  forget_backward(program, 6);
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].id == "grad-missing");
  CHECK(cause_of(program.findings[0]) == "no_backward");
  CHECK(program.findings[0].module_path == "g");
}

TEST_CASE("autograd-cut tells the detach, not the guard around a target", "[check]") {
  CutSteps steps;
  steps.owned();
  for (int i = 0; i < 2; ++i) {
    steps.program.op({.name = "aten::mm",
                      .inputs = {20, 1},
                      .outputs = {23},
                      .grad_mode = false,
                      .requires_grad = false});
    steps.trunk();
    steps.detach();
    steps.loss({22, 23});
    steps.end_step();
  }
  REQUIRE(steps.program.findings.size() == 1);
  CHECK(cause_of(steps.program.findings[0]) == "detach");
  CHECK(steps.program.findings[0].op == "aten::detach");
}

TEST_CASE("autograd-cut mixes no path of another model with what it cuts", "[check]") {
  CutSteps steps;
  steps.program.attach(2, {{.id = 12, .path = "fc.weight"}});
  steps.owned();
  for (int i = 0; i < 2; ++i) {
    steps.trunk();
    steps.program.op({.name = "aten::detach",
                      .inputs = {21},
                      .outputs = {22},
                      .module = 2001,
                      .requires_grad = false});
    steps.loss({22});
    steps.end_step();
  }
  REQUIRE(steps.program.findings.size() == 1);
  CHECK(steps.program.findings[0].model == "net");
  CHECK(steps.program.findings[0].module_path == "trunk");
}

TEST_CASE("autograd-cut tells parameters that were assigned anew under a guard", "[check]") {
  CutSteps steps;
  steps.trunk();
  steps.loss({21});
  steps.reached = {1, 2};
  steps.program.backward(steps.reached);
  steps.program.step(1);
  for (const TensorId weight : {1, 2}) {
    steps.program.op(
        {.name = "aten::sub",
         .inputs = {weight, weight + 50},
         .outputs = {weight + 60},
         .grad_mode = false,
         .stack = 61,
         .shape = weight == 1 ? std::vector<std::int64_t>{32, 8} : std::vector<std::int64_t>{4}});
  }
  steps.program.op(
      {.name = "aten::addmm", .inputs = {20, 61, 62}, .outputs = {kLoss}, .requires_grad = false});
  steps.program.detach(1);
  steps.program.send_now(ErrorEvent{.at = {}, .message = kRefused});
  REQUIRE(steps.program.findings.size() == 1);
  const Finding& finding = steps.program.findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(cause_of(finding) == "grad_mode_off");
  CHECK(finding.op == "aten::sub");
  CHECK(finding.what.starts_with("cuts 2 trainable parameters (260 elements)"));
  CHECK(finding.fixes.at(0).text.starts_with("write into the parameter under the guard"));
}

TEST_CASE("autograd-cut tells why autograd::grad() was refused", "[check]") {
  CutSteps steps;
  steps.owned();
  SECTION("for what the one before it returned") {
    const bool creates_graph = GENERATE(true, false);
    auto first = std::make_unique<BackwardEvent>();
    first->accumulates = false;
    first->creates_graph = creates_graph;
    first->at = steps.program.now();
    steps.program.send(std::move(first));
    steps.program.send_now(ErrorEvent{.at = {}, .message = kRefused});
    REQUIRE(steps.program.findings.size() == (creates_graph ? 0 : 1));
    if (!creates_graph) {
      CHECK(steps.program.findings[0].fixes.at(0).text.starts_with("create_graph = true"));
    }
  }
  SECTION("for an input") {
    steps.program.send_now(
        ErrorEvent{.at = {}, .message = "element 3 of the input tensors does not require grad"});
    REQUIRE(steps.program.findings.size() == 1);
    CHECK(steps.program.findings[0].what ==
          "autograd::grad() was refused: input 3 requires no gradient");
  }
  for (const Finding& finding : steps.program.findings) {
    CHECK(finding.severity == Severity::kError);
  }
}

TEST_CASE("autograd-cut tells a refused backward of what is frozen, in a note if it is caught",
          "[check]") {
  CutSteps steps;
  steps.owned();
  steps.program.op(
      {.name = "aten::addmm", .inputs = {20, 1}, .outputs = {21}, .requires_grad = false});
  steps.program.attach(1, {{.id = 1, .path = "trunk.weight", .requires_grad = false},
                           {.id = 2, .path = "head.weight", .requires_grad = false}});
  steps.program.send_now(ErrorEvent{.at = {}, .message = kRefused});
  CHECK(steps.program.findings.empty());
  const bool is_caught = GENERATE(true, false);
  if (is_caught) steps.end_step();
  steps.program.send_now(ExitEvent{});
  REQUIRE(steps.program.findings.size() == 1);
  CHECK(steps.program.findings[0].severity == (is_caught ? Severity::kNote : Severity::kError));
  CHECK(steps.program.findings[0].what.starts_with(
      "backward was refused, for its loss has no graph; 2 parameters"));
}

TEST_CASE("autograd-cut tells a refused backward of a step that was not recorded", "[check]") {
  CutSteps steps;
  steps.owned();
  steps.trunk();
  steps.loss({21});
  steps.reached = {1, 2};
  steps.end_step();
  const bool is_new = GENERATE(true, false);
  if (is_new) {
    steps.program.attach(2, {{.id = 12, .path = "fc.weight"}});
    steps.program.optimizer(2, {12});
  }
  const bool grad_mode = is_new || GENERATE(true, false);
  if (!grad_mode) steps.program.attach(1, {});
  steps.program.send_now(ErrorEvent{.at = {}, .message = kRefused, .grad_mode = grad_mode});
  CHECK(steps.program.findings.empty());
  const bool is_caught = GENERATE(true, false);
  if (is_caught) steps.end_step();
  steps.program.exit();
  REQUIRE(steps.program.findings.size() == 1);
  const Finding& finding = steps.program.findings[0];
  CHECK(finding.severity == (is_caught ? Severity::kNote : Severity::kError));
  CHECK(finding.module_path == (is_new ? "fc" : ""));
  CHECK(finding.what ==
        std::string("backward was refused, for its loss has no graph") +
            (is_new ? "; 1 parameter (4 elements) in optimizers never had a gradient: fc.weight"
                    : ""));
  CHECK(finding.why.starts_with(grad_mode ? "grad mode was on at that call"
                                          : "grad mode is off in the thread"));
}

TEST_CASE("autograd-cut takes no operator for a cut whose parameter is frozen", "[check]") {
  CutSteps steps;
  steps.owned();
  steps.program.op(
      {.name = "aten::addmm", .inputs = {20, 1}, .outputs = {21}, .requires_grad = false});
  steps.program.op(
      {.name = "aten::mean", .inputs = {21}, .outputs = {kLoss}, .requires_grad = false});
  steps.program.send_now(ErrorEvent{.at = {}, .message = kRefused});
  CHECK(steps.program.findings.empty());
}

TEST_CASE("autograd-cut says of a choice that it has no gradient", "[check]") {
  CutSteps steps;
  steps.reached = {};
  steps.trunk();
  steps.program.op({.name = "aten::argmax",
                    .inputs = {21},
                    .outputs = {22},
                    .requires_grad = false,
                    .floating = false});
  steps.dead_loss();
  steps.program.leaf(kLoss);
  steps.program.roots_are_leaves = true;
  steps.program.backward({kLoss});
  CHECK(cause_of(steps.program.findings.at(0)) == "leaf_loss");
  CHECK(steps.program.findings[0].fixes.at(0).text.starts_with(
      "compute the loss from the scores before aten::argmax, which has no gradient"));
}

}  // namespace ddpscope::test::graphless_loss_test
