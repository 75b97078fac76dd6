// Parameters whose optimizers step no more, or never have, while gradients still come.
#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::lapsed_owners_test {
namespace {
const std::vector<Registered> kNet = {{.id = 1, .path = "body.a.weight", .shape = {8, 4}},
                                      {.id = 2, .path = "body.b.weight", .shape = {4, 4}},
                                      {.id = 3, .path = "c.weight"}};

struct Run {
  Program program{"optim-missing-parameter"};

  Run() { program.attach(1, kNet); }
  void train(OptimizerId optimizer, const std::vector<TensorId>& leaves, int steps) {
    for (int i = 0; i < steps; ++i) {
      program.backward(leaves);
      program.step(optimizer);
      program.zero_grad(optimizer);
    }
  }
  /// Of two optimizers in turn, the second one's step is left out.
  void forget_second(int steps, bool clears = true) {
    for (int i = 0; i < steps; ++i) {
      program.backward({1, 2, 3});
      program.step(1);
      program.zero_grad(1);
      if (clears) program.zero_grad(2);
    }
  }
};
}  // namespace

TEST_CASE("optim-missing-parameter stays silent on members that another leaf replaced", "[check]") {
  const bool has_model = GENERATE(false, true);
  Program program(has_model ? "module-unregistered" : "optim-missing-parameter");
  const bool goes_on = GENERATE(false, true);  // gradients of what was replaced
  if (has_model) {
    program.attach(1, {{.id = 1, .path = "pose.weight"}});
    program.optimizer(2, {1});
  }
  program.leaf(5, {100, 3});
  program.leaf(6, {120, 3});
  program.optimizer(1, {5});
  for (int i = 0; i < 16; ++i) {
    if (i == 8) program.members(1, {{6}});
    std::vector<TensorId> leaves = {i < 8 ? TensorId{5} : TensorId{6}};
    if (i >= 8 && goes_on) leaves.push_back(5);
    program.backward(leaves);
    program.step(1);
  }
  program.exit();
  CHECK(program.findings.size() == (goes_on ? 1 : 0));
}

TEST_CASE("optim-missing-parameter tells what the optimizer of a later phase leaves out",
          "[check]") {
  Run run;
  run.program.optimizer_type = "torch::optim::Adam";
  run.program.optimizer(1, {1, 2, 3});
  run.train(1, {1, 2, 3}, 30);
  run.program.optimizer_type = "torch::optim::SGD";
  run.program.optimizer(2, {3});
  run.train(2, {1, 2, 3}, 32);
  CHECK(run.program.findings.empty());
  run.train(2, {1, 2, 3}, 8);
  REQUIRE(run.program.findings.size() == 1);
  const Finding& finding = run.program.findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(cause_of(finding) == "group_omits");
  CHECK(finding.what ==
        "2 parameters (48 elements) get gradients and are in no optimizer that still steps "
        "(group_omits)");
  CHECK(finding.why ==
        "Adam holds them, and was last seen to step at step 30; SGD, built after that, holds "
        "others of its parameters and not these");
  CHECK(finding.fixes[0].text == "build SGD with them too, or add_param_group(...)");
  run.train(2, {1, 2, 3}, 64);
  run.program.exit();
  CHECK(run.program.findings.size() == 1);
}

TEST_CASE("optim-missing-parameter notes a part in eval mode that a later phase leaves out",
          "[check]") {
  Run run;
  run.program.optimizer(1, {1, 2, 3});
  run.train(1, {1, 2, 3}, 8);
  run.program.in_eval = {"body", "body.a", "body.b"};
  run.program.attach(1, kNet);
  run.program.optimizer(2, {3});
  run.train(2, {1, 2, 3}, 64);
  REQUIRE(run.program.findings.size() == 1);
  CHECK(run.program.findings[0].severity == Severity::kNote);
}

TEST_CASE("optim-missing-parameter notes at exit what no optimizer steps any more", "[check]") {
  Run run;
  run.program.optimizer(1, {1, 2});
  run.train(1, {1, 2}, 30);
  run.program.optimizer(2, {3});
  run.train(2, {1, 2, 3}, 60);
  CHECK(run.program.findings.empty());
  run.program.exit();
  REQUIRE(run.program.findings.size() == 1);
  CHECK(run.program.findings[0].severity == Severity::kNote);
  CHECK(run.program.findings[0].why ==
        "SGD holds them, and was last seen to step at step 30; SGD still steps");
  CHECK(run.program.findings[0].fixes[0].text.starts_with("requires_grad_(false)"));
}

TEST_CASE("optim-missing-parameter tells what never stepped where hooks rest at the end",
          "[check]") {
  Run run;
  run.program.optimizer(1, {1, 2});
  run.program.optimizer(2, {3});
  run.forget_second(20);
  const bool has_begun = GENERATE(false, true);
  if (has_begun) run.program.send_now(OptimizerStateEvent{.optimizer = 2});
  run.program.rest(1, 200);
  run.program.send_now(LossEvent{});
  run.program.exit();
  REQUIRE(run.program.findings.size() == (has_begun ? 0 : 1));
  if (!has_begun) CHECK(cause_of(run.program.findings[0]) == "never_stepped");
}

TEST_CASE("optim-missing-parameter asks nothing of the optimizers of other phases", "[check]") {
  Run run;
  SECTION("of parameters that were frozen") {
    run.program.optimizer(1, {1, 2, 3});
    run.train(1, {1, 2, 3}, 30);
    std::vector<Registered> frozen = kNet;
    frozen[0].requires_grad = frozen[1].requires_grad = false;
    run.program.attach(1, frozen);
    run.program.optimizer(2, {3});
    run.train(2, {1, 2, 3}, 80);
  }
  SECTION("of parameters that get no gradient any more, or seldom") {
    run.program.optimizer(1, {1, 2, 3});
    run.train(1, {1, 2, 3}, 30);
    run.program.optimizer(2, {3});
    run.train(2, {3}, 60);
    run.train(2, {1, 2, 3}, 2);
    run.train(2, {3}, 60);
  }
  SECTION("that alternate with gradients of the other's loss") {
    run.program.optimizer(1, {1, 2});
    run.program.optimizer(2, {3});
    for (int i = 0; i < 3; ++i) {
      run.train(1, {1, 2, 3}, 50);
      run.train(2, {1, 2, 3}, 50);
    }
  }
  SECTION("that come again after a longer one over a part of the model") {
    run.program.optimizer(1, {1, 2, 3});
    run.program.optimizer(2, {3});
    for (int i = 0; i < 3; ++i) {
      run.train(1, {1, 2, 3}, 50);
      run.train(2, {1, 2, 3}, 50);
    }
  }
  SECTION("that are built anew in each epoch") {
    for (OptimizerId epoch = 1; epoch < 8; ++epoch) {
      run.program.optimizer(epoch, {1, 2, 3});
      run.train(epoch, {1, 2, 3}, 20);
    }
  }
  SECTION("that step once in many loops of one built for each, over a part") {
    run.program.optimizer(1, {1, 2, 3});
    for (OptimizerId task = 2; task < 8; ++task) {
      run.program.optimizer(task, {3});
      run.train(task, {1, 2, 3}, 40);
      run.program.step(1);
    }
  }
  SECTION("that step rarely") {
    run.program.optimizer(1, {1, 2});
    run.program.optimizer(2, {3});
    for (int i = 0; i < 200; ++i) {
      run.program.backward({1, 2, 3});
      run.program.step(2);
      run.program.zero_grad(2);
      if (i % 64 == 63) run.program.step(1);
    }
  }
  SECTION("that the program steps by itself") {
    run.program.optimizer(1, {1, 2, 3});
    run.train(1, {1, 2, 3}, 10);
    run.program.optimizer(2, {3});
    for (int i = 0; i < 60; ++i) {
      run.program.op({.name = "aten::sub_", .inputs = {1}, .outputs = {1}, .grad_mode = false});
      run.program.op({.name = "aten::sub_", .inputs = {2}, .outputs = {2}, .grad_mode = false});
      run.train(2, {1, 2, 3}, 1);
    }
  }
  run.program.exit();
  CHECK(run.program.findings.empty());
}

TEST_CASE("optim-missing-parameter warns at exit of an optimizer that was never stepped",
          "[check]") {
  Run run;
  run.program.optimizer(1, {3});
  run.program.optimizer(2, {1, 2});
  const bool clears = GENERATE(true, false);
  run.forget_second(clears ? 30 : 80, clears);
  CHECK(run.program.findings.empty());
  if (clears) run.program.rest(1, 20);
  run.program.exit();
  REQUIRE(run.program.findings.size() == 1);
  const Finding& finding = run.program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(cause_of(finding) == "never_stepped");
  CHECK(finding.what ==
        "2 parameters (48 elements) get gradients and their optimizer was never stepped "
        "(never_stepped)");
  CHECK(finding.why.starts_with("SGD, number 2 of those that were built, holds them; meanwhile"));
  CHECK(finding.fixes[0].text == "call step() of that optimizer behind backward()");
}

TEST_CASE("optim-missing-parameter knows no steps of before the first model was attached",
          "[check]") {
  Program program("optim-missing-parameter");
  program.optimizer(2, {1, 2});
  program.attach(1, kNet);
  program.optimizer(1, {3});
  for (int i = 0; i < 80; ++i) {
    program.backward({1, 2, 3});
    program.step(1);
  }
  program.exit();
  CHECK(program.findings.empty());
}

TEST_CASE("optim-missing-parameter speaks of an unregistered member that is never stepped",
          "[check]") {
  Run run;
  run.program.leaf(9);
  run.program.optimizer(1, {1, 2, 3});
  run.program.optimizer(2, {9});
  for (int i = 0; i < 80; ++i) {
    run.program.backward({1, 2, 3, 9});
    run.program.step(1);
  }
  run.program.exit();
  REQUIRE(run.program.findings.size() == 1);
  CHECK(run.program.findings[0].what ==
        "1 tensor (4 elements) gets gradients and its optimizer was never stepped "
        "(never_stepped)");
}

TEST_CASE("optim-missing-parameter does not miss a first step", "[check]") {
  Run run;
  SECTION("that many micro-batches come before") {
    run.program.optimizer(1, {1});
    run.program.optimizer(2, {2, 3});
    run.forget_second(60, /*clears=*/false);
  }
  SECTION("of an optimizer whose members get no gradient, or no more") {
    run.program.optimizer(1, {1});
    run.program.optimizer(2, {2, 3});
    run.forget_second(20);
    run.train(1, {1}, 80);
  }
  SECTION("of an optimizer over all, in a phase that trains a part") {
    run.program.optimizer(1, {1});
    run.program.optimizer(2, {1, 2, 3});
    run.forget_second(100);
  }
  SECTION("of an optimizer of the program's own class, which writes its members") {
    run.program.optimizer(1, {1});
    run.program.optimizer(2, {2, 3});
    for (int i = 0; i < 80; ++i) {
      run.program.op({.name = "aten::sub_", .inputs = {2}, .outputs = {2}, .grad_mode = false});
      run.forget_second(1);
    }
  }
  SECTION("of parameters that another rank steps and sends") {
    run.program.optimizer(1, {1});
    run.program.optimizer(2, {2, 3});
    for (int i = 0; i < 80; ++i) {
      run.forget_second(1);
      CollectiveEvent sent{.kind = CollectiveKind::kBroadcast};
      sent.group_size = 2;
      sent.tensors.push_back(2);
      sent.tensors.push_back(3);
      run.program.send_now(std::move(sent));
    }
  }
  SECTION("where no optimizer steps at all") {
    run.program.optimizer(1, {1, 2, 3});
    for (int i = 0; i < 100; ++i) run.program.backward({1, 2, 3});
  }
  run.program.exit();
  CHECK(run.program.findings.empty());
}

}  // namespace ddpscope::test::lapsed_owners_test
