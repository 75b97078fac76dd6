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

}  // namespace ddpscope::test::handled_nonfinite_test
