#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::optim_missing_parameter_test {
namespace {
const std::vector<Registered> kNet = {{.id = 1, .path = "body.weight"},
                                      {.id = 2, .path = "fc.weight", .shape = {10, 512}},
                                      {.id = 3, .path = "fc.bias", .shape = {10}}};

void train(Program& program, OptimizerId optimizer, const std::vector<TensorId>& leaves,
           int steps = 4) {
  for (int i = 0; i < steps; ++i) {
    program.backward(leaves);
    program.step(optimizer);
    program.zero_grad(optimizer);
  }
}
}  // namespace

TEST_CASE("optim-missing-parameter reports at the end of cycle 2", "[check]") {
  Program program("optim-missing-parameter");
  program.attach(1, kNet);
  program.optimizer(1, {1});
  train(program, 1, {1, 2, 3}, 1);
  CHECK(program.findings.empty());
  train(program, 1, {1, 2, 3}, 4);

  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.step == 2);
  CHECK(finding.module_path == "fc");
  CHECK(finding.subject.empty());
  CHECK(finding.what ==
        "2 parameters (5130 elements) get gradients and are in no optimizer (group_omits)");
  CHECK(fact_of<std::int64_t>(finding, "optimizers_count") == 1);
}

TEST_CASE("optim-missing-parameter counts views of a member as held", "[check]") {
  Program program("optim-missing-parameter");
  program.attach(1, {{.id = 7, .path = "fc.weight", .shape = {10, 512}}});
  const std::int64_t elements = GENERATE(5120, 5119);
  program.leaf_in_storage(20, elements);
  program.optimizer(1, {20});
  train(program, 1, {7});
  CHECK(program.findings.empty() == (elements == 5120));
}

TEST_CASE("optim-missing-parameter is a note on a fixed part in eval mode", "[check]") {
  Program program("optim-missing-parameter");
  program.in_eval = {"fc"};
  Severity severity = Severity::kNote;
  SECTION("below a model that trains") {}
  SECTION("but not where an optimizer holds some of it") {
    program.in_eval = {"", "body", "fc"};
    severity = Severity::kError;
  }
  program.attach(1, kNet);
  program.optimizer(1, {1});
  train(program, 1, {1, 2, 3});
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == severity);
  CHECK((program.findings[0].fixes.at(0).text.starts_with("requires_grad_(false)")) ==
        (severity == Severity::kNote));
}

TEST_CASE("optim-missing-parameter knows that the optimizer was built first", "[check]") {
  Program program("optim-missing-parameter");
  SECTION("because it saw the parameter being registered later") {
    program.attach(1, {{.id = 1, .path = "body.weight"}});
    program.optimizer(1, {1});
    program.attach(1, kNet);
  }
  SECTION("because the optimizer still holds what was replaced") {
    program.create(1);
    program.leaf(22, {10, 512});
    program.leaf(23, {10});
    program.attach(1, kNet);
    program.members(1, {{1, 22, 23}});
    program.create(1);
  }
  train(program, 1, {1, 2, 3});
  REQUIRE(program.findings.size() == 1);
  CHECK(cause_of(program.findings[0]) == "built_before");
}

TEST_CASE("optim-missing-parameter tells of an optimizer that holds a copy of the model",
          "[check]") {
  Program program("optim-missing-parameter");
  std::size_t paths = 0;
  SECTION("which is registered") {
    paths = 2;
    program.attach(2, {{.id = 11, .path = "body.weight"}, {.id = 12, .path = "fc.bias"}});
  }
  SECTION("whose module is gone") {
    program.leaf(11);
    program.leaf(12);
  }
  program.attach(1, {{.id = 1, .path = "body.weight"}, {.id = 2, .path = "fc.bias"}});
  program.optimizer(1, {11, 12});
  train(program, 1, {1, 2});
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.why.starts_with("SGD holds as many parameters of the same shapes, "));
  CHECK(finding.fixes[0].text ==
        "build the optimizer with the parameters of the model that is trained");
  CHECK(cause_of(finding) == "group_omits");
  CHECK(fact_of<std::vector<FactScalar>>(finding, "twin_paths").size() == paths);
}

TEST_CASE("optim-missing-parameter names the optimizer of a model that was built anew", "[check]") {
  Program program("optim-missing-parameter");
  program.attach(1, {{.id = 11, .path = "body.weight"}, {.id = 12, .path = "fc.bias"}});
  program.optimizer(1, {11, 12});
  train(program, 1, {11, 12}, 4);
  program.send_now(TreeEndEvent{.model = 1, .died = true});
  program.attach(2, {{.id = 1, .path = "body.weight"}, {.id = 2, .path = "fc.bias"}});
  train(program, 1, {1, 2}, 2);
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(cause_of(finding) == "built_before");
  CHECK(finding.why.ends_with("those of a model that is gone, for which it was built"));
  CHECK(finding.fixes[0].text ==
        "build the optimizer with the parameters of the model that is trained");
}

TEST_CASE("optim-missing-parameter takes no member of a dead model for a predecessor", "[check]") {
  Program program("optim-missing-parameter");
  program.attach(1, {{.id = 11, .path = "fc.weight", .shape = {10, 512}}});
  program.optimizer(1, {11});
  train(program, 1, {11}, 2);
  program.detach(1);
  program.attach(2, kNet);
  program.optimizer(2, {1});
  train(program, 2, {1, 2, 3}, 3);
  REQUIRE(program.findings.size() == 1);
  CHECK(cause_of(program.findings[0]) == "group_omits");
}

TEST_CASE("optim-missing-parameter sees a model that took the place of one that died", "[check]") {
  Program program("optim-missing-parameter");
  program.attach(1, kNet);
  program.optimizer(1, {1, 2, 3});
  train(program, 1, {1, 2, 3}, 3);
  CHECK(program.findings.empty());
  const bool died = GENERATE(true, false);
  program.send_now(TreeEndEvent{.model = 1, .died = died});
  program.leaf(20);
  program.leaf(21);
  train(program, 1, {20, 21}, 3);
  REQUIRE(program.findings.size() == (died ? 1 : 0));  // else it was detached
  if (!died) return;
  CHECK(program.findings[0].what.starts_with("2 tensors (8 elements) get gradients and are in no"));
}

TEST_CASE("optim-missing-parameter takes no copy for what was replaced", "[check]") {
  Program program("optim-missing-parameter");
  program.attach(1, kNet);
  program.leaf(22, {10, 512});
  program.optimizer(1, {1, 22});
  train(program, 1, {1, 2, 3});
  REQUIRE(program.findings.size() == 1);
  CHECK(cause_of(program.findings[0]) == "group_omits");
}

TEST_CASE("optim-missing-parameter asks no optimizer of an earlier loop", "[check]") {
  Program program("optim-missing-parameter");
  program.attach(1, {{.id = 9, .path = "first.weight"}});
  program.create(1);
  program.optimizer(1, {9});
  train(program, 1, {9});
  program.attach(2, kNet);
  program.create(2);
  program.optimizer(2, {1});
  train(program, 2, {1, 2, 3}, 40);
  REQUIRE(program.findings.size() == 1);
  CHECK(cause_of(program.findings[0]) == "group_omits");
}

TEST_CASE("optim-missing-parameter speaks of tensors where no module is attached", "[check]") {
  Program program("optim-missing-parameter");
  program.leaf(1);
  program.leaf(2, {3, 3});
  program.optimizer(1, {1});
  train(program, 1, {1, 2});
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].what ==
        "1 tensor (9 elements) gets gradients and is in no optimizer (group_omits)");
}

TEST_CASE("optim-missing-parameter notes parameters that the program updates itself", "[check]") {
  Program program("optim-missing-parameter");
  program.attach(1, kNet);
  program.optimizer(1, {1});
  const bool is_write = GENERATE(true, false);  // a loss takes it in
  for (int i = 0; i < 3; ++i) {
    program.backward({1, 2});
    if (is_write) {
      program.op({.name = "aten::sub_", .inputs = {2}, .outputs = {2}, .grad_mode = false});
    } else {
      program.op({.name = "aten::broadcast_tensors", .inputs = {2, 30}, .outputs = {2, 31}});
    }
    program.step(1);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == (is_write ? Severity::kNote : Severity::kError));
}

TEST_CASE("optim-missing-parameter waits where an optimizer may be unknown", "[check]") {
  Program program("optim-missing-parameter");
  program.attach(1, kNet);
  program.members(1, {{1}});  // built before capture began
  SECTION("until 32 optimizer steps have shown all of them") {
    train(program, 1, {1, 2, 3}, 31);
    CHECK(program.findings.empty());
    train(program, 1, {1, 2, 3}, 1);
    CHECK(program.findings.size() == 1);
  }
  SECTION("or until the program ends without a step of another one") {
    train(program, 1, {1, 2, 3}, 5);
    CHECK(program.findings.empty());
    program.exit();
    CHECK(program.findings.size() == 1);
  }
}

TEST_CASE("optim-missing-parameter stays silent", "[check]") {
  Program program("optim-missing-parameter");
  SECTION("on frozen parameters") {
    program.attach(
        1, {{.id = 1, .path = "a.weight"}, {.id = 2, .path = "b.weight", .requires_grad = false}});
    program.optimizer(1, {1});
    train(program, 1, {1, 2});
  }
  SECTION("on parameters without a gradient") {
    program.attach(1, kNet);
    program.optimizer(1, {1});
    train(program, 1, {1});
  }
  SECTION("on the union of several optimizers") {
    program.attach(1, kNet);
    program.optimizer(1, {1});
    program.optimizer(2, {2, 3});
    for (int i = 0; i < 4; ++i) {
      program.backward({1, 2, 3});
      program.step(1);
      program.step(2);
    }
  }
  SECTION("on copies that are written by copy_") {
    program.attach(1, kNet);
    program.optimizer(1, {1, 2});
    for (int i = 0; i < 4; ++i) {
      program.backward({1, 2, 3});
      program.op({.name = "aten::copy_", .inputs = {3, 1}, .outputs = {3}, .grad_mode = false});
      program.step(1);
    }
  }
  SECTION("on an optimizer that waits for its first step") {
    program.attach(1, kNet);
    program.optimizer(1, {1});
    program.optimizer(2, {2, 3});
    train(program, 1, {1, 2, 3}, 5);
  }
  SECTION("on a GAN whose generator's optimizer was built before capture") {
    program.attach(1, {{.id = 1, .path = "discriminator.weight"}});
    program.attach(2, {{.id = 2, .path = "generator.weight"}});
    program.members(1, {{1}});
    for (int i = 0; i < 3; ++i) {
      train(program, 1, {1, 2}, 5);
      if (i == 0) program.members(2, {{2}});
      train(program, 2, {1, 2}, 1);
    }
    program.exit();
  }
  SECTION("where a declaration says so") {
    program.attach(1, kNet);
    program.declare(GENERATE("fc", "fc.*"), GENERATE("external", "sharded"));
    program.optimizer(1, {1});
    train(program, 1, {1, 2, 3});
  }
  SECTION("where no optimizer steps") {
    program.attach(1, kNet);
    for (int i = 0; i < 4; ++i) program.backward({1, 2, 3});
  }
  CHECK(program.findings.empty());
}

}  // namespace ddpscope::test::optim_missing_parameter_test
