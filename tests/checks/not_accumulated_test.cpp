// Programs that take gradients by autograd::grad(), which leaves them to the program.
#include "tests/support/catch.h"
#include "tests/support/cut_steps.h"

namespace ddpscope::test::not_accumulated_test {
namespace {
void take_gradients(Program& program, std::vector<TensorId> leaves) {
  program.send_now(BackwardEvent{.surveyed = true,
                                 .walked = true,
                                 .accumulates = false,
                                 .graph = {.leaves = std::move(leaves)}});
}

/// Weights are adapted by an inner step; the loss is of the adapted ones, new leaves.
struct Adapted : CutSteps {
  Adapted() { owned(); }
  void step(std::vector<TensorId> reached_leaves, bool by_hand = false) {
    program.op({.name = "aten::addmm", .inputs = {20, 1}, .outputs = {21}, .shape = {8, 8}});
    program.op({.name = "aten::addmm", .inputs = {21, 2}, .outputs = {22}, .shape = {8, 8}});
    take_gradients(program, {1, 2});
    for (const TensorId weight : {TensorId{1}, TensorId{2}}) {
      program.op({.name = "aten::sub", .inputs = {weight, 40}, .outputs = {40 + weight}});
      detach(/*from=*/40 + weight, /*to=*/50 + weight);
    }
    program.op({.name = "aten::addmm", .inputs = {51, 52}, .outputs = {kLoss}});
    program.backward(reached_leaves);
    if (by_hand) program.clear({1, 2}, GradientBefore::kKept);
    program.step(1);
    program.zero_grad(1);
  }
};

/// Gradients of two parameters are computed, and these are assigned before each step.
Findings assigned(const std::vector<std::vector<TensorId>>& in_turn) {
  Program program("grad-missing");
  program.attach(1, kNet);
  program.optimizer(1, {1, 2});
  for (int i = 0; i < 12; ++i) {
    program.op({.name = "aten::addmm", .inputs = {20, 1}, .outputs = {21}});
    program.op({.name = "aten::addmm", .inputs = {21, 2}, .outputs = {22}});
    take_gradients(program, {1, 2});
    program.clear(in_turn[static_cast<std::size_t>(i) % in_turn.size()], GradientBefore::kKept);
    program.step(1);
    program.zero_grad(1);
  }
  return program.findings;
}
}  // namespace

TEST_CASE("Adapted weights that are detached cut a model that gets nothing else", "[check]") {
  Adapted adapted;
  for (int i = 0; i < 3; ++i) adapted.step({51, 52});
  REQUIRE(!adapted.program.findings.empty());
  const Finding& finding = adapted.program.findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(cause_of(finding) == "detach");
  CHECK(fact_of<std::int64_t>(finding, "starved_parameters_count") == 2);
}

TEST_CASE("Adapted weights that are detached cut nothing", "[check]") {
  Adapted adapted;
  SECTION("where the program assigns the gradients of the adapted ones") {
    for (int i = 0; i < 3; ++i) adapted.step({51, 52}, /*by_hand=*/true);
  }
  SECTION("where backward reaches the weights too") {
    for (int i = 0; i < 3; ++i) adapted.step({1, 2, 51, 52});
  }
  SECTION("where their optimizer does not step") {
    adapted.program.optimizer(2, {2});
    adapted.program.op({.name = "aten::sub", .inputs = {1, 40}, .outputs = {41}});
    adapted.detach(/*from=*/41, /*to=*/51);
    adapted.program.op({.name = "aten::addmm", .inputs = {51, 2}, .outputs = {kLoss}});
    adapted.program.backward({2, 51});
    adapted.program.step(2);
  }
  CHECK(adapted.program.findings.empty());
}

TEST_CASE("A parameter whose computed gradient the program assigns never is a warning", "[check]") {
  const Findings found = assigned({{1}});
  REQUIRE(found.size() == 1);
  CHECK(found[0].severity == Severity::kWarning);
  CHECK(cause_of(found[0]) == "not_accumulated");
  CHECK(found[0].module_path == "head");
}

TEST_CASE("A step without any of the gradients that were computed is a warning", "[check]") {
  const Findings found = assigned({{}});
  REQUIRE(found.size() == 1);
  CHECK(found[0].severity == Severity::kWarning);
  CHECK(cause_of(found[0]) == "not_accumulated");
}

TEST_CASE("Gradients that are assigned in turn are no warning", "[check]") {
  for (const Finding& finding : assigned({{1}, {1}, {2}, {1}, {1}, {1}, {1}, {1}})) {
    CHECK(finding.severity == Severity::kNote);
  }
  CHECK(assigned({{1}, {2}}).empty());
  CHECK(assigned({{1, 2}}).empty());
}

}  // namespace ddpscope::test::not_accumulated_test
