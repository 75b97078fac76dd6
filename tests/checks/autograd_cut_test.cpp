#include "tests/support/catch.h"
#include "tests/support/cut_steps.h"

namespace ddpscope::test::autograd_cut_test {
namespace {
void expect_cut(const Findings& findings, const std::string& cause, const std::string& op) {
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].severity == Severity::kWarning);
  CHECK(findings[0].step == 2);
  CHECK(findings[0].op == op);
  CHECK(cause_of(findings[0]) == cause);
  CHECK(findings[0].what ==
        "cuts 1 trainable parameter (256 elements) of trunk.weight from the loss");
  CHECK(fact_of<std::string>(findings[0], "cut_op") == op);
  CHECK(fact_of<std::int64_t>(findings[0], "starved_parameters_count") == 1);
  CHECK(fact_of<std::int64_t>(findings[0], "starved_elements") == 256);
}
/// So many cycles of `forward`, without a finding.
template <class Forward>
void run(CutSteps& steps, Forward&& forward, int cycles = 4) {
  for (int i = 0; i < cycles; ++i) {
    forward();
    steps.end_step();
  }
  CHECK(steps.program.findings.empty());
}
}  // namespace

TEST_CASE("autograd-cut reports a part of the loss that is detached in two cycles", "[check]") {
  CutSteps steps;
  steps.owned();
  for (int i = 0; i < 2; ++i) {
    CHECK(steps.program.findings.empty());
    steps.trunk();
    steps.detach();
    steps.loss({22});
    steps.end_step();
  }
  expect_cut(steps.program.findings, "detach", "aten::detach");
  const Finding& finding = steps.program.findings[0];
  CHECK(finding.why ==
        "output [8, 32] of trunk.weight was detached at train.cpp:64 and then entered the loss");
  CHECK(fact_of<std::string>(finding, "cut_site") == "train.cpp:64");
  CHECK(finding.sites.at(0).role == "used");
}

TEST_CASE("autograd-cut tells the ways to cut apart", "[check]") {
  CutSteps steps;
  steps.owned();
  std::string cause;
  std::string op;
  const auto run = [&](auto&& forward) {
    for (int i = 0; i < 2; ++i) {
      forward();
      steps.end_step();
    }
  };
  SECTION("a guard around the trunk") {
    run([&] {
      steps.trunk(/*grad_mode=*/false);
      steps.loss({21});
    });
    cause = "grad_mode_off";
    op = "aten::addmm";
    REQUIRE(steps.program.findings.size() == 1);
    CHECK(fact_of<std::int64_t>(steps.program.findings[0], "grad_mode_off_since_step") == 1);
  }
  SECTION("indices that enter the loss") {
    run([&] {
      steps.trunk();
      steps.program.op({.name = "aten::argmax",
                        .inputs = {21},
                        .outputs = {22},
                        .requires_grad = false,
                        .floating = false});
      steps.loss({22});
    });
    cause = "integer_op";
    op = "aten::argmax";
  }
  SECTION("a number that is read, a round one of a parameter, and then a constant") {
    const auto [from, number] = GENERATE(table<TensorId, double>({{21, 0.123456}, {1, 1.5}}));
    run([&, from = from, number = number] {
      if (from != 1) steps.trunk();
      steps.program.op({.name = "aten::item", .inputs = {from}, .read = number});
      steps.loss({}, {number});
    });
    cause = "host_value";
    op = "aten::item";
  }
  SECTION("data(), which is no operator") {
    run([&] {
      steps.trunk();
      TensorInfo hidden{.id = 22, .shape = {8, 32}, .storage = 21, .floating = true};
      steps.program.send_now(TensorEvent{.at = {}, .tensor = hidden});
      steps.loss({22});
    });
    cause = "detach";
    op = "data()";
  }
  expect_cut(steps.program.findings, cause, op);
}

TEST_CASE("autograd-cut leaves a frozen teacher under the same guard out", "[check]") {
  CutSteps steps;
  steps.program.in_eval = {"", "old"};
  steps.program.attach(2, {{.id = 3, .path = "old.weight"}});
  steps.owned();
  for (int i = 0; i < 2; ++i) {
    steps.program.op(
        {.name = "aten::mm", .inputs = {20, 3}, .outputs = {25}, .grad_mode = false, .stack = 60});
    steps.trunk(/*grad_mode=*/false);
    steps.loss({21, 25});
    steps.end_step();
  }
  expect_cut(steps.program.findings, "grad_mode_off", "aten::addmm");
}

TEST_CASE("autograd-cut reports an error where nothing is reached", "[check]") {
  CutSteps steps;
  steps.reached = {};
  SECTION("by a loss that was made a leaf") {
    steps.trunk();
    steps.detach();
    steps.dead_loss();
    steps.program.leaf(kLoss);
    steps.program.roots_are_leaves = true;
    steps.program.backward({kLoss});
    CHECK(cause_of(steps.program.findings.at(0)) == "leaf_loss");
    CHECK(steps.program.findings[0].why ==
          "backward began at a leaf: the loss lost its graph by aten::detach at train.cpp:64");
  }
  SECTION("by a loss that no operator computed") {
    steps.trunk();
    steps.program.leaf(kLoss);
    steps.program.roots_are_leaves = true;
    steps.program.backward({kLoss});
    CHECK(cause_of(steps.program.findings.at(0)) == "leaf_loss");
  }
  SECTION("because LibTorch finds no graph at all") {
    steps.trunk(/*grad_mode=*/false);
    steps.detach();
    steps.dead_loss();
    steps.program.send_now(ErrorEvent{
        .at = {},
        .message = "element 0 of tensors does not require grad and does not have a grad_fn"});
    CHECK(cause_of(steps.program.findings.at(0)) == "grad_mode_off");
  }
  REQUIRE(steps.program.findings.size() == 1);
  CHECK(steps.program.findings[0].severity == Severity::kError);
  CHECK(fact_of<std::int64_t>(steps.program.findings[0], "starved_elements") == 256);
}

TEST_CASE("autograd-cut stays silent", "[check]") {
  SECTION("on a stop-gradient branch whose upstream is reached by another path") {
    CutSteps steps;
    steps.owned();
    steps.reached = {1, 2};
    run(steps, [&] {
      steps.trunk();
      steps.detach();
      steps.loss({21, 22});
    });
  }
  SECTION("on frozen upstream") {
    CutSteps steps({{.id = 1, .path = "trunk.weight", .requires_grad = false},
                    {.id = 2, .path = "head.weight"}});
    steps.program.optimizer(1, {2});
    run(steps, [&] {
      steps.trunk();
      steps.detach();
      steps.loss({22});
    });
  }
  SECTION("on a straight-through estimator") {
    CutSteps steps;
    steps.owned();
    steps.reached = {1, 2};
    run(steps, [&] {
      steps.trunk();
      steps.program.op(
          {.name = "aten::round", .inputs = {21}, .outputs = {23}, .requires_grad = false});
      steps.program.op({.name = "aten::sub", .inputs = {23, 21}, .outputs = {24}});
      steps.detach(24);
      steps.program.op({.name = "aten::add", .inputs = {21, 22}, .outputs = {25}});
      steps.loss({25});
    });
  }
  SECTION("on metrics that do not reach the loss") {
    CutSteps steps;
    steps.owned();
    run(steps, [&] {
      steps.trunk();
      steps.detach();
      steps.program.op({.name = "aten::mean", .inputs = {22}, .outputs = {23}});
      steps.program.op({.name = "aten::item", .inputs = {21}, .read = 1.5});
      steps.loss({}, {1.5});  // a round number that is equal by chance
    });
  }
  SECTION("on inference in another thread") {
    CutSteps steps;
    steps.owned();
    run(steps, [&] {
      OpEvent other{.op = "aten::addmm", .grad_mode = false, .inputs = {20, 1}};
      other.outputs = {{.id = 21, .shape = {8}, .storage = 21, .floating = true}};
      other.at = steps.program.now();
      other.at.thread = 2;
      steps.program.send(std::make_unique<OpEvent>(other));
      steps.loss({21});
    });
  }
}

TEST_CASE("autograd-cut stays silent on what is trained elsewhere or not at all", "[check]") {
  SECTION("on target and averaged copies that still require grad") {
    CutSteps steps;
    steps.program.optimizer(1, {2});
    run(steps, [&] {
      steps.trunk();
      steps.detach();
      steps.loss({22});
    });
  }
  SECTION("on copies in a program that updates its parameters itself") {
    CutSteps steps;
    run(
        steps,
        [&] {
          steps.trunk();
          steps.detach();
          steps.loss({22});
          steps.program.op({.name = "aten::lerp_", .inputs = {1, 2}, .outputs = {1}});
        },
        1);
  }
  SECTION("on a generator that another loss of the cycle reaches") {
    CutSteps steps;
    steps.owned();
    run(steps, [&] {
      steps.trunk();
      steps.detach();
      steps.loss({22});
      steps.program.backward({2});
      steps.trunk();
      steps.loss({21});
      steps.reached = {1, 2};
    });
  }
  SECTION("on a branch that had a gradient in the last 4 cycles") {
    CutSteps steps;
    steps.owned();
    steps.reached = {1, 2};
    run(
        steps, [&] { steps.loss({}); }, 1);
    steps.reached = {2};
    run(
        steps,
        [&] {
          steps.trunk();
          steps.detach();
          steps.loss({22});
        },
        2);
  }
  SECTION("on a tensor that takes only the shape") {
    CutSteps steps;
    steps.owned();
    run(steps, [&] {
      steps.trunk();
      steps.program.op(
          {.name = "aten::zeros_like", .inputs = {21}, .outputs = {22}, .requires_grad = false});
      steps.loss({22});
    });
  }
  SECTION("on a guarded pass of a model in eval mode") {
    CutSteps steps;
    steps.owned();
    steps.program.in_eval = {"", "trunk", "head"};
    steps.program.attach(1, kNet);
    run(steps, [&] {
      steps.trunk(/*grad_mode=*/false);
      steps.loss({21});
    });
  }
  SECTION("on a backward that starts at a trained leaf") {
    CutSteps steps;
    steps.owned();
    steps.program.roots = {2};
    steps.program.roots_are_leaves = true;
    run(steps, [&] { steps.trunk(); });
  }
}

}  // namespace ddpscope::test::autograd_cut_test
