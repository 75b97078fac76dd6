#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::grad_zero_instead_of_none_test {
namespace {
const std::vector<Registered> kNet = {{.id = 1, .path = "body.weight"},
                                      {.id = 2, .path = "head_a.weight"},
                                      {.id = 3, .path = "head_b.weight"}};

/// The optimizer of a program, with options as capture tells them.
struct Trainer {
  Program& program;
  GroupOptions options;
  bool is_frozen = false;  ///< head_b

  void step(const std::vector<TensorId>& reached, const std::vector<ZeroGradient>& zero) {
    program.backward(reached);
    OptimizerMembersEvent members{.optimizer = 1, .type = "torch::optim::SGD"};
    members.groups = {{{1, true, true}, {2, true, true}, {3, !is_frozen, true}}};
    members.options = {options};
    program.send_now(members);
    if (!zero.empty()) program.send_now(ZeroGradientsEvent{.optimizer = 1, .members = zero});
    program.send(OptimizerStepEvent{.at = program.now(), .optimizer = 1});
  }
  /// Heads that take turns; the idle one has a gradient of zeros.
  void alternate(int steps, double ratio) {
    for (int i = 0; i < steps; ++i) {
      const TensorId idle = i % 2 == 0 ? 3 : 2;
      step({1, TensorId{5} - idle}, {{idle, ratio}});
    }
  }
};
}  // namespace

TEST_CASE("grad-zero-instead-of-none warns of idle heads that decay", "[check]") {
  Program program("grad-zero-instead-of-none");
  program.attach(1, kNet);
  program.create(1);
  Trainer{program, {.weight_decay = 0.01, .momentum = 0.9}}.alternate(5, 1e-4);
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.module_path == "head_b");
  CHECK(cause_of(finding) == "zero_filled");
  CHECK(finding.what ==
        "1 parameter moved by up to 0.0001 (relative) per step in 3 steps in which their gradient "
        "was exactly 0 (zero_filled)");
  CHECK(finding.why ==
        "SGD applies weight decay 0.01 and momentum 0.9 to gradients that are defined and zero");
  CHECK(fact_of<double>(finding, "update_ratio") == 1e-4);
}

TEST_CASE("grad-zero-instead-of-none sees momentum that goes on after the tail", "[check]") {
  Program program("grad-zero-instead-of-none");
  program.attach(1, kNet);
  program.create(1);
  Trainer trainer{program, {.momentum = 0.9}};
  trainer.step({1, 2, 3}, {});
  for (int i = 0; i < 3; ++i) trainer.step({1, 2}, {{3, 1e-3}});
  CHECK(program.findings.empty());  // the first of these is the tail of the use
  trainer.step({1, 2}, {{3, 1e-3}});
  CHECK(program.findings.size() == 1);
}

TEST_CASE("grad-zero-instead-of-none sees frozen weights that go on moving", "[check]") {
  Program program("grad-zero-instead-of-none");
  program.attach(1, kNet);
  program.create(1);
  const bool was_trained = GENERATE(true, false);  // else the program makes its gradients
  Trainer trainer{program, {.momentum = 0.9}};
  trainer.step(was_trained ? std::vector<TensorId>{1, 2, 3} : std::vector<TensorId>{1, 2}, {});
  trainer.is_frozen = true;
  for (int i = 0; i < 6; ++i) trainer.step({1, 2}, {{3, 1e-3}});
  REQUIRE(program.findings.size() == (was_trained ? 1 : 0));
  if (!was_trained) return;
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.what ==
        "1 frozen parameter moved by up to 0.001 (relative) per step in 3 steps in which their "
        "gradient was exactly 0 (zero_filled)");
  CHECK(finding.fixes.at(1).text == "p.mutable_grad() = torch::Tensor() where they are frozen");
}

TEST_CASE("grad-zero-instead-of-none finds heads that are multiplied by zero", "[check]") {
  Program program("grad-zero-instead-of-none");
  program.attach(1, kNet);
  program.create(1);
  const bool decays = GENERATE(true, false);
  Trainer trainer{program, {.weight_decay = decays ? 0.01 : 0.0}};
  for (int i = 0; i < 4; ++i) {
    program.op({.name = "aten::mm", .inputs = {30, 1, 2}, .outputs = {31}});
    program.op({.name = "aten::mm", .inputs = {30, 3}, .outputs = {32}});
    program.op({.name = "aten::sum", .inputs = {32}, .outputs = {33}});
    program.op({.name = "aten::mul", .inputs = {33}, .outputs = {34}, .by_zero = true});
    program.op({.name = "aten::add", .inputs = {31, 34}, .outputs = {35}});
    trainer.step({1, 2, 3}, {{3, decays ? 1e-4 : 0.0}});
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == (decays ? Severity::kWarning : Severity::kNote));
  CHECK(cause_of(program.findings[0]) == "times_zero");
  CHECK(fact_of<std::int64_t>(program.findings[0], "saved_bytes") == 2 * 8 * 32 * 4);
}

TEST_CASE("grad-zero-instead-of-none stays silent", "[check]") {
  Program program("grad-zero-instead-of-none");
  program.attach(1, kNet);
  program.create(1);
  SECTION("on true zeros of used parameters: dead activations, masked rows") {
    Trainer trainer{program, {.weight_decay = 0.01}};
    for (int i = 0; i < 6; ++i) trainer.step({1, 2, 3}, {{3, 1e-4}});
  }
  SECTION("on a head that is multiplied by zero and used elsewhere too") {
    Trainer trainer{program, {.weight_decay = 0.01}};
    for (int i = 0; i < 6; ++i) {
      program.op({.name = "aten::mm", .inputs = {30, 3}, .outputs = {32}});
      program.op({.name = "aten::mul", .inputs = {32}, .outputs = {33}, .by_zero = true});
      program.op({.name = "aten::relu", .inputs = {32}, .outputs = {34}});
      program.op({.name = "aten::add", .inputs = {33, 34}, .outputs = {35}});
      trainer.step({1, 2, 3}, {{3, 1e-4}});
    }
  }
  SECTION("on the momentum tail of the step after use") {
    Trainer{program, {.momentum = 0.9}}.alternate(12, 1e-4);
  }
  SECTION("without decay and momentum") { Trainer{program, {}}.alternate(12, 1e-4); }
  SECTION("on parameters that the step did not change") {
    Trainer{program, {.weight_decay = 0.01}}.alternate(12, 0);
  }
  SECTION("in fewer than 3 steps") { Trainer{program, {.weight_decay = 0.01}}.alternate(4, 1e-4); }
  SECTION("where lost events hide the steps between") {
    Trainer trainer{program, {.weight_decay = 0.01}};
    trainer.alternate(4, 1e-4);
    program.drop_events();
    trainer.alternate(4, 1e-4);
  }
  CHECK(program.findings.empty());
}

}  // namespace ddpscope::test::grad_zero_instead_of_none_test
