// NaN of a backward, by what the program does with it and what it does itself.
#include "tests/support/catch.h"
#include "tests/support/nonfinite_steps.h"

namespace ddpscope::test::handled_nonfinite_test {
namespace {
constexpr char kCheck[] = "numeric-nonfinite-backward";
}  // namespace

TEST_CASE("numeric-nonfinite-backward notes NaN that the program handles", "[check]") {
  NonfiniteSteps run(kCheck);
  run.bad_backward(log_node());
  std::string how;
  SECTION("by leaving out the step") {
    run.program.zero_grad(1);
    run.finite_step();
    how = "; the program left out the step";
  }
  SECTION("by repairing the gradients") {
    run.program.send_now(GradientsRepairedEvent{.tensors = {kConv}});
    run.step();
    how = "; the program cleared or repaired the gradients before the step";
  }
  REQUIRE(run.program.findings.size() == 1);
  CHECK(run.program.findings[0].severity == Severity::kNote);
  CHECK(run.program.findings[0].why.ends_with(how));
  run.finite_step();
  run.program.exit();
  CHECK(run.program.findings.size() == 1);
}

TEST_CASE("numeric-nonfinite-backward names a function of the program", "[check]") {
  NonfiniteSteps run(kCheck);
  NonfiniteNodeEvent node = log_node();
  node.node = "torch::autograd::CppNode<nets::SafeRoot>";
  node.op = "";
  run.bad_backward(node);
  run.step();
  REQUIRE(run.program.findings.size() == 1);
  const Finding& finding = run.program.findings[0];
  CHECK(finding.why.starts_with(
      "backward() of nets::SafeRoot returned it where it was given finite gradients"));
  CHECK(finding.fixes.at(0).text.starts_with("look at what backward() of nets::SafeRoot"));
}

TEST_CASE("numeric-nonfinite-backward tells at the end what no step followed", "[check]") {
  NonfiniteSteps run(kCheck);
  run.bad_backward(log_node());
  run.program.exit();
  REQUIRE(run.program.findings.size() == 1);
  CHECK(run.program.findings[0].severity == Severity::kError);
}

TEST_CASE("Who leaves out steps with NaN and goes on leaves out the last one, too") {
  const bool of_forward = GENERATE(true, false);
  NonfiniteSteps run(of_forward ? "numeric-nonfinite-forward" : kCheck);
  const auto bad = [&run, of_forward] {
    of_forward ? run.bad_forward(overflow()) : run.bad_backward(log_node());
    run.program.zero_grad(1);
  };
  Severity last = Severity::kError;
  SECTION("after one that it left out") {
    bad();
    run.finite_step();
    last = Severity::kNote;
  }
  SECTION("but not where it left out none") { run.finite_step(); }
  SECTION("nor where it gives up after some in a row") {
    bad();
    run.finite_step();
    for (int i = 0; i < 3; ++i) bad();
  }
  of_forward ? run.bad_forward(overflow()) : run.bad_backward(log_node());
  run.program.exit();
  REQUIRE(!run.program.findings.empty());
  CHECK(run.program.findings.back().severity == last);
  CHECK(run.program.findings.back().why.ends_with("; the program left out the step") ==
        (last == Severity::kNote));
}

namespace {
constexpr char kForward[] = "numeric-nonfinite-forward";

/// Of which no gradient came, as where the loss leaves all rows out.
void bad_loss(NonfiniteSteps& run) {
  run.loss(NAN);
  run.backward();
  NonfiniteOutputEvent origin = overflow();
  origin.values = nans(1, 1);
  run.program.send_now(origin);
}
}  // namespace

TEST_CASE("numeric-nonfinite-forward notes what the program handles", "[check]") {
  NonfiniteSteps run(kForward);
  std::string how = "; the program left out the step";
  SECTION("by leaving out the step for its gradients") {
    run.bad_forward(overflow());
    run.program.zero_grad(1);
    CHECK(run.program.findings.empty());
    run.backward();
  }
  SECTION("by leaving out the step for its loss alone") {
    bad_loss(run);
    run.program.zero_grad(1);
    CHECK(run.program.findings.empty());
    run.backward();
  }
  SECTION("by repairing the gradients") {
    run.bad_forward(overflow());
    run.program.send_now(GradientsRepairedEvent{.tensors = {kHead, kConv}});
    run.step();
    how = "; the program cleared or repaired the gradients before the step";
  }
  REQUIRE(run.program.findings.size() == 1);
  CHECK(run.program.findings[0].severity == Severity::kNote);
  CHECK(run.program.findings[0].why.ends_with(how));
  run.finite_step();
  run.program.exit();
  CHECK(run.program.findings.size() == 1);
}

TEST_CASE("numeric-nonfinite-forward is an error where the next attempt is not left out") {
  NonfiniteSteps run(kForward);
  run.bad_forward(overflow());
  run.program.zero_grad(1);
  run.bad_step(overflow());
  REQUIRE(run.program.findings.size() == 2);
  CHECK(run.program.findings[0].severity == Severity::kNote);
  CHECK(run.program.findings[1].severity == Severity::kError);
}

TEST_CASE("numeric-nonfinite-forward is an error where the optimizer steps with it", "[check]") {
  NonfiniteSteps run(kForward);
  SECTION("whose gradients are not finite") { run.bad_step(overflow()); }
  SECTION("whose loss alone is not finite") {
    bad_loss(run);
    run.step();
  }
  SECTION("or where the run ends with it") {
    run.bad_forward(overflow());
    run.program.exit();
  }
  SECTION("or where nobody takes its gradients") {
    run.program.optimizer(2, {kMean});
    run.bad_forward(overflow());
    for (int i = 0; i < 3; ++i) {
      run.program.step(2);
      run.backward();
    }
  }
  SECTION("at once, where several optimizers may take what it made finite") {
    run.program.optimizer(2, {kMean});
    bad_loss(run);
  }
  REQUIRE(run.program.findings.size() == 1);
  CHECK(run.program.findings[0].severity == Severity::kError);
}

TEST_CASE("numeric-nonfinite-forward does not call the batch what the program may compute") {
  NonfiniteSteps run("numeric-nonfinite-forward");
  NonfiniteOutputEvent origin = overflow();
  origin.source = 41;
  origin.source_values = nans(512, 512);
  run.bad_step(origin);
  const Finding& finding = run.program.findings.at(0);
  CHECK(finding.what ==
        "a tensor without a gradient path, as the batch, was not finite when forward read it: 512 "
        "of 512 elements are NaN");
  CHECK(finding.confidence == Confidence::kMedium);
  CHECK(finding.fixes.at(0).text.starts_with("where the program computes it: an epsilon"));
}

TEST_CASE("numeric-nonfinite-forward waits for what a closure computes again", "[check]") {
  NonfiniteSteps run(kForward, /*optimizer=*/false);
  run.program.optimizer_type = "torch::optim::LBFGS";
  run.program.optimizer(1, {kConv, kHead});
  const bool is_finite_then = GENERATE(true, false);
  run.program.zero_grad(1);
  run.bad_forward(overflow());
  run.program.zero_grad(1);
  if (is_finite_then) {
    run.loss(0.5);
    run.program.in_backward = nullptr;
    run.backward();
  } else {
    run.bad_forward(overflow());
  }
  CHECK(run.program.findings.empty());
  run.program.step(1, /*with_closure=*/true);
  REQUIRE(run.program.findings.size() == 1);
  const Finding& finding = run.program.findings[0];
  CHECK(finding.severity == (is_finite_then ? Severity::kNote : Severity::kError));
  CHECK(finding.why.ends_with("; the program computed it again, finite, in the same step()") ==
        is_finite_then);
}

TEST_CASE("numeric-nonfinite-backward leaves out what a closure computes again", "[check]") {
  NonfiniteSteps run(kCheck, /*optimizer=*/false);
  run.program.optimizer_type = "torch::optim::LBFGS";
  run.program.optimizer(1, {kConv, kHead});
  const bool is_finite_then = GENERATE(true, false);
  run.bad_backward(log_node());
  run.program.zero_grad(1);
  if (is_finite_then) {
    run.loss(0.5);
    run.backward();
  } else {
    run.bad_backward(log_node());
  }
  run.program.step(1, /*with_closure=*/true);
  run.program.exit();
  CHECK(run.program.findings.size() == (is_finite_then ? 0 : 1));
}

TEST_CASE("numeric-nonfinite-gradient tells no NaN again after autograd::grad()", "[check]") {
  NonfiniteSteps run("numeric-nonfinite-gradient");
  const auto step = [&] {
    auto asked = std::make_unique<BackwardEvent>();
    asked->at = run.program.now();
    asked->accumulates = false;
    run.program.in_backward = nullptr;
    run.program.send(std::move(asked));
    run.program.send_now(BackwardEndEvent{});
    run.bad_step(overflow());
  };
  step();
  step();
  step();
  CHECK(run.program.findings.size() == 1);
}

TEST_CASE("A loss that grew over the steps names the learning rate first", "[check]") {
  const bool grows = GENERATE(true, false);
  NonfiniteSteps run(GENERATE(kForward, "numeric-nonfinite-gradient"));
  run.finite_step();
  run.loss(grows ? 3e25 : 40);
  run.backward();
  run.step();
  NonfiniteOutputEvent origin = overflow();
  origin.inputs.absmax = 2.5e21;
  run.bad_step(origin);
  REQUIRE(run.program.findings.size() == 1);
  const Finding& finding = run.program.findings[0];
  constexpr char kGrew[] =
      "; the loss grew from 0.5 in step 1 to 3e+25 in step 2: training diverges";
  CHECK((finding.why.find(kGrew) != std::string::npos) == grows);
  CHECK(finding.fixes.at(0).text.starts_with("lower the learning rate, or clip") == grows);
}

TEST_CASE("A loss that grew is not why a logarithm of zero fails", "[check]") {
  NonfiniteSteps run(kForward);
  run.finite_step();
  run.loss(3e25);
  run.backward();
  run.step();
  run.bad_step(overflow());
  CHECK(run.program.findings.at(0).why.find("diverges") == std::string::npos);
}

}  // namespace ddpscope::test::handled_nonfinite_test
