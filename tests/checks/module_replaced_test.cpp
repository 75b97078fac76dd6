#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::module_replaced_test {
namespace {
const std::vector<Registered> kNet = {{.id = 1, .path = "embed.weight"},
                                      {.id = 2, .path = "head.weight"}};
// In the order of their paths: the root, embed, head.
constexpr ModuleId kEmbed = 1001;
constexpr ModuleId kHead = 1002;

/// Steps in which the head reads `used` for its weight.
void train(Program& program, TensorId used, int steps, OptimizerId by = 1) {
  for (int i = 0; i < steps; ++i) {
    program.op({.name = "aten::embedding", .inputs = {1, 30}, .outputs = {31}, .module = kEmbed});
    program.op({.name = "aten::mm", .inputs = {31, used}, .outputs = {32}, .module = kHead});
    program.backward({1, used});
    program.step(by);
    program.zero_grad(by);
  }
}
}  // namespace

TEST_CASE("module-replaced reports a replaced layer that the optimizer still holds", "[check]") {
  Program program("module-replaced,optim-*");
  program.attach(1, kNet);
  program.optimizer(1, {1, 2});
  train(program, 2, 1);
  program.attach(1, {kNet[0], {.id = 3, .path = "head.weight"}});
  train(program, 3, 4);
  const Findings findings = program.judge().findings();
  REQUIRE(findings.size() == 3);
  const Finding& finding = findings[0];
  CHECK(finding.id == "module-replaced");
  CHECK(finding.step == 2);
  CHECK(finding.severity == Severity::kError);
  CHECK(cause_of(finding) == "re_registered");
  CHECK(finding.module_path == "head");
  CHECK(finding.subject == "weight");
  CHECK(fact_of<std::string>(finding, "path") == "head.weight");
  for (const Finding& folded : {findings[1], findings[2]}) {
    CHECK(folded.caused_by == finding.fingerprint);
    CHECK(folded.causal_role == CausalRole::kCascade);
  }
}

TEST_CASE("module-replaced reports a member that was assigned a new tensor", "[check]") {
  Program program("module-replaced,module-unregistered,grad-missing");
  program.attach(1, kNet);
  program.optimizer(1, {1, 2});
  program.leaf(3);
  train(program, 3, 2);
  CHECK(program.with_id("module-replaced").empty());
  train(program, 3, 4);
  const Findings findings = program.with_id("module-replaced");
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].step == 3);
  CHECK(findings[0].severity == Severity::kError);
  CHECK(cause_of(findings[0]) == "member_reassigned");
  CHECK(findings[0].module_path == "head");
  for (const Finding& finding : program.judge().findings()) {
    const bool folded = finding.id != "module-replaced";
    CHECK(finding.caused_by == (folded ? findings[0].fingerprint : ""));
  }
}

TEST_CASE("module-replaced reports a member that is assigned another tensor in each step") {
  Program program("module-replaced");
  program.attach(1, kNet);
  program.optimizer(1, {1, 2});
  program.optimizer(2, {1});
  train(program, 2, 1);
  const bool is_adapted = GENERATE(false, true);  // from the registered weight, in each step
  const bool is_stepped = GENERATE(true, false);
  for (TensorId fresh = 3; fresh < 8; ++fresh) {
    program.leaf(fresh);
    if (is_adapted) {
      program.op({.name = "aten::clone", .inputs = {2}, .outputs = {33}, .grad_mode = false});
    }
    const OptimizerId by = is_stepped ? 1 : 2;
    train(program, fresh, 1, by);
    program.backward_without_survey({1});
    program.step(by);
  }
  REQUIRE(program.findings.size() == (is_stepped && !is_adapted ? 1 : 0));
  if (program.findings.empty()) return;
  CHECK(cause_of(program.findings[0]) == "member_reassigned");
  CHECK(fact_of<std::string>(program.findings[0], "path") == "head.weight");
}

TEST_CASE("module-replaced reports a member that was assigned a tensor without grad", "[check]") {
  Program program("module-replaced");
  const bool is_of_torch = GENERATE(true, false);
  program.module_types["head"] = is_of_torch ? "torch::nn::LinearImpl" : "Head";
  program.attach(1, kNet);
  program.optimizer(1, {1, 2});
  program.send_now(TensorEvent{
      {}, {.id = 3, .shape = {4}, .dtype = "float32", .is_leaf = true, .floating = true}});
  program.send_now(TensorEvent{{},
                               {.id = 5,
                                .shape = {2, 2},
                                .dtype = "float32",
                                .is_leaf = true,
                                .floating = true,
                                .view_of = 3}});
  const TensorId read = GENERATE(3, 5);
  for (int i = 0; i < 4; ++i) {
    program.op({.name = "aten::embedding", .inputs = {1, 30}, .outputs = {31}, .module = kEmbed});
    program.op({.name = "aten::mm", .inputs = {31, read}, .outputs = {32}, .module = kHead});
    program.backward({1});
    program.step(1);
  }
  // Of another class it may be an input, and the weight of no use.
  REQUIRE(program.findings.size() == (is_of_torch ? 1U : 0U));
  if (is_of_torch) CHECK(cause_of(program.findings[0]) == "member_reassigned");
}

TEST_CASE("module-replaced reports weights that were tied by assignment", "[check]") {
  Program program("module-replaced");
  program.attach(1, kNet);
  program.optimizer(1, {1, 2});
  train(program, 1, 4);
  REQUIRE(program.findings.size() == 1);
  CHECK(cause_of(program.findings[0]) == "tied_by_assignment");
  CHECK(program.findings[0].what ==
        "1 parameter (4 elements): forward uses embed.weight of the same shape instead "
        "(tied_by_assignment)");
  CHECK(fact_of<std::string>(program.findings[0], "used_path") == "embed.weight");
}

TEST_CASE("module-replaced sees a member of a class whose forward is not seen", "[check]") {
  Program program("module-replaced");
  program.attach(1, {{.id = 1, .path = "block.in.weight"},
                     {.id = 2, .path = "block.scale"},
                     {.id = 4, .path = "block.out.weight"}});
  program.optimizer(1, {1, 2, 4});
  program.leaf(3);
  for (int i = 0; i < 4; ++i) {
    program.op({.name = "aten::mm", .inputs = {30, 1}, .outputs = {31}});
    program.op({.name = "aten::mul", .inputs = {31, 3}, .outputs = {32}});
    program.op({.name = "aten::mm", .inputs = {32, 4}, .outputs = {33}});
    program.backward({1, 3, 4});
    program.step(1);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].subject == "scale");
}

TEST_CASE("module-replaced reports a whole layer that was assigned", "[check]") {
  Program program("module-replaced,module-unregistered,grad-missing");
  program.module_types["head"] = program.module_types["spare"] = "Linear";
  std::vector<Registered> net = {{.id = 1, .path = "body.weight", .shape = {6}},
                                 {.id = 2, .path = "head.weight", .shape = {3, 6}},
                                 {.id = 4, .path = "head.bias", .shape = {3}}};
  const bool with_spare = GENERATE(false, true);
  if (with_spare) net.push_back({.id = 6, .path = "spare.weight", .shape = {3, 6}});
  program.attach(1, net);
  program.optimizer(1, {1, 2, 4});
  program.leaf(3, {3, 6});
  program.leaf(5, {3});
  const std::string type = GENERATE("Linear", "Other");
  if (GENERATE(false, true)) {  // it ran before
    program.op({.name = "aten::addmm", .inputs = {30, 2, 4}, .outputs = {32}, .module = 1002});
    program.backward({1, 2, 4});
    program.step(1);
    program.zero_grad(1);
  }
  program.loose_module(type, {3, 5});
  for (int i = 0; i < 5; ++i) {
    program.op({.name = "aten::mm", .inputs = {30, 1}, .outputs = {31}, .module = 1001});
    program.op({.name = "aten::addmm", .inputs = {31, 3, 5}, .outputs = {32}, .module = 9});
    program.backward({1, 3, 5});
    program.step(1);
    program.zero_grad(1);
  }
  const Findings findings = program.with_id("module-replaced");
  if (with_spare || type == "Other") {  // which of the two unused weights is replaced is not known
    CHECK(std::ranges::none_of(findings, [](const Finding& finding) {
      return finding.subject == "weight" || finding.subject.empty();
    }));
    return;
  }
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].module_path == "head");
  CHECK(cause_of(findings[0]) == "member_reassigned");
  CHECK(fact_of<std::int64_t>(findings[0], "parameters_count") == 2);
  for (const Finding& finding : program.judge().findings()) {
    CHECK(finding.caused_by == (finding.id == "module-replaced" ? "" : findings[0].fingerprint));
  }
}

TEST_CASE("module-replaced stays silent", "[check]") {
  Program program("module-replaced");
  program.attach(1, kNet);
  program.optimizer(1, {1, 2});
  SECTION("on a model that moved: the tensors are the same") {
    train(program, 2, 2);
    program.attach(1, kNet);
    train(program, 2, 4);
  }
  SECTION("on replaced parameters that every optimizer also replaced") {
    train(program, 2, 2);
    program.attach(1, {kNet[0], {.id = 3, .path = "head.weight"}});
    if (GENERATE(true, false)) {
      program.optimizer(2, {1, 3});
      train(program, 3, 4, /*by=*/2);
    } else {
      program.members(1, {{1, 2}, {3}});
      train(program, 3, 4);
    }
  }
  SECTION("on a replaced layer that is frozen") {
    program.attach(1, {kNet[0], {.id = 3, .path = "head.weight", .requires_grad = false}});
    train(program, 1, 1);
  }
  SECTION("on a root that was attached anew after the change") {
    program.detach(1);
    program.attach(2, {kNet[0], {.id = 3, .path = "head.weight"}});
    program.members(1, {{1, 2}});
    program.backward({1, 3});
    program.step(1);
  }
  SECTION("on plain constants that a module reads") {
    program.leaf(3);
    for (int i = 0; i < 6; ++i) {
      program.op({.name = "aten::mm", .inputs = {31, 2, 3}, .outputs = {32}, .module = kHead});
      program.backward({1, 2});
      program.step(1);
    }
  }
  SECTION("on a layer that is never called beside one of the same shape") {
    for (int i = 0; i < 6; ++i) {
      program.op({.name = "aten::mm", .inputs = {30, 1}, .outputs = {31}, .module = kEmbed});
      program.backward({1});
      program.step(1);
    }
  }
  SECTION("on a parameter that is used again within 3 cycles") {
    program.leaf(3);
    train(program, 3, 2);
    train(program, 2, 1);
    train(program, 3, 2);
  }
  CHECK(program.findings.empty());
}

TEST_CASE("module-replaced stays silent on what only looks like a stand-in", "[check]") {
  Program program("module-replaced");
  program.attach(1, kNet);
  program.optimizer(1, {1, 2});
  SECTION("on a parameter that is registered under another path now") {
    program.attach(1, {kNet[0], {.id = 3, .path = "head.weight"}, {.id = 2, .path = "old.weight"}});
    program.backward({1, 2, 3});
    program.step(1);
  }
  SECTION("on a stand-in that gets no gradient") {
    program.leaf(3);
    for (int i = 0; i < 6; ++i) {
      program.op({.name = "aten::mm", .inputs = {31, 3}, .outputs = {32}, .module = kHead});
      program.backward({1});
      program.step(1);
    }
  }
  SECTION("on an unused parameter of a module that reads its own others") {
    program.attach(1, {kNet[0], kNet[1], {.id = 4, .path = "head.scale"}});
    const bool with_loose = GENERATE(false, true);
    program.leaf(3);
    for (int i = 0; i < 6; ++i) {
      program.op({.name = "aten::mm", .inputs = {31, 2}, .outputs = {32}, .module = kHead});
      if (with_loose) program.op({.name = "aten::mul", .inputs = {32, 3}, .outputs = {33}});
      program.backward({2, 3});
      program.step(1);
    }
  }
  SECTION("on an unused parameter far from where an unregistered tensor is used") {
    program.attach(1, {kNet[0], kNet[1], {.id = 4, .path = "other.scale"}});
    program.leaf(3);
    for (int i = 0; i < 6; ++i) {
      program.op({.name = "aten::mm", .inputs = {30, 1}, .outputs = {31}});
      program.op({.name = "aten::mul", .inputs = {31, 3}, .outputs = {32}});
      program.op({.name = "aten::mm", .inputs = {32, 1}, .outputs = {33}});
      program.op({.name = "aten::mm", .inputs = {33, 2}, .outputs = {34}});
      program.backward({1, 2, 3});
      program.step(1);
    }
  }
  CHECK(program.findings.empty());
}

}  // namespace ddpscope::test::module_replaced_test
