#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::constant_terms_test {
namespace {
constexpr TensorId kCritic = 31, kGradient = 32, kNorm = 33, kPenalty = 34, kLoss = 40, kSum = 41;

/// A critic's loss with a penalty on the gradient at its input.
struct Penalised {
  Program program{"autograd-cut"};
  std::string grad = "autograd::grad";
  std::string between = "aten::mul";
  bool with_path = false;
  std::vector<std::int64_t> shape = {1};

  void train(int steps = 2) {
    program.attach(1, {{.id = 1, .path = "fc.weight"}});
    program.optimizer(1, {1});
    for (int i = 0; i < steps; ++i) {
      program.op({.name = "aten::addmm", .inputs = {1}, .outputs = {kCritic}, .module = 1000});
      program.op({.name = grad, .outputs = {kGradient}, .requires_grad = with_path});
      program.op({.name = "aten::linalg_vector_norm",
                  .inputs = {kGradient},
                  .outputs = {kNorm},
                  .requires_grad = with_path,
                  .shape = {8}});
      program.op({.name = between,
                  .inputs = {kNorm},
                  .outputs = {kPenalty},
                  .requires_grad = with_path,
                  .shape = shape});
      program.op({.name = "aten::mean", .inputs = {kCritic}, .outputs = {kLoss}, .shape = shape});
      program.op(
          {.name = "aten::add", .inputs = {kLoss, kPenalty}, .outputs = {kSum}, .shape = shape});
      program.roots = {kSum};
      program.backward({1});
      program.step(1);
    }
  }
};
}  // namespace

TEST_CASE("autograd-cut tells of a penalty on gradients that have no graph", "[check]") {
  Penalised run;
  run.train(1);
  CHECK(run.program.findings.empty());
  run.train(3);
  REQUIRE(run.program.findings.size() == 1);
  const Finding& finding = run.program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.op == "aten::add");
  CHECK(finding.model == "net");
  CHECK(cause_of(finding) == "no_create_graph");
  CHECK(fact_of<std::string>(finding, "cut_op") == "autograd::grad");
  CHECK(finding.why.starts_with("autograd::grad() returned [8, 32] without create_graph: "));
  CHECK(finding.fixes[0].text.find("create_graph=*/true") != std::string::npos);
  CHECK(finding.first_step == 1);
}

TEST_CASE("autograd-cut stays silent on what is added to a loss", "[check]") {
  Penalised run;
  SECTION("and has a gradient path") { run.with_path = true; }
  SECTION("and comes of no gradient") { run.grad = "aten::rand"; }
  SECTION("and is detached by the program") { run.between = "aten::detach"; }
  SECTION("as one of many numbers") { run.shape = {8}; }
  run.train(4);
  CHECK(run.program.findings.empty());
}

TEST_CASE("autograd-cut stays silent on an update by what grad() returned", "[check]") {
  Program program("autograd-cut");
  program.attach(1, {{.id = 1, .path = "weight", .shape = {1}}});
  program.optimizer(1, {1});
  for (int i = 0; i < 4; ++i) {
    program.op({.name = "autograd::grad", .outputs = {32}, .requires_grad = false, .shape = {1}});
    program.op({.name = "aten::sub", .inputs = {1, 32}, .outputs = {33}, .shape = {1}});
    program.op({.name = "aten::square", .inputs = {33}, .outputs = {34}, .shape = {1}});
    program.roots = {34};
    program.backward({1});
    program.step(1);
  }
  CHECK(program.findings.empty());
}

}  // namespace ddpscope::test::constant_terms_test
