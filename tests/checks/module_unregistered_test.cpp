#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::module_unregistered_test {
namespace {
void train(Program& program, const std::vector<TensorId>& leaves, int steps = 4) {
  for (int i = 0; i < steps; ++i) {
    program.backward(leaves);
    program.step(1);
    program.zero_grad(1);
  }
}
}  // namespace

TEST_CASE("module-unregistered reports leaves that two steps reached", "[check]") {
  Program program("module-unregistered");
  program.attach(1, {{.id = 1, .path = "stem.weight"}, {.id = 2, .path = "head.weight"}});
  program.optimizer(1, {1, 2});
  program.leaf(5, {2, 4});
  program.leaf(6, {2, 4});
  for (int i = 0; i < 2; ++i) {
    program.op({.name = "aten::convolution", .inputs = {20, 1}, .outputs = {21}});
    program.op({.name = "aten::mm", .inputs = {21, 5}, .outputs = {22}});
    program.op({.name = "aten::mm", .inputs = {22, 6}, .outputs = {23}});
    program.op({.name = "aten::addmm", .inputs = {23, 2}, .outputs = {24}});
    if (i == 0) program.loose_module("LinearImpl", {5, 6});
    program.backward({1, 2, 5, 6});
    CHECK(program.findings.size() == (i == 0 ? 0U : 1U));
    program.step(1);
  }
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.step == 2);
  CHECK(finding.model == "net");
  CHECK(finding.module_path.empty());
  CHECK(finding.op == "aten::mm");
  CHECK(finding.what ==
        "2 trainable tensors, 16 elements, are registered nowhere; that is 66.7 % of what the "
        "loss reaches");
  CHECK(finding.why ==
        "a live LinearImpl uses them through aten::mm, no module and no optimizer "
        "holds them; largest [2, 4] x2");
  CHECK(fact_of<std::int64_t>(finding, "registered_count") == 2);
  CHECK_FALSE(fact_of<bool>(finding, "wrong_device"));
  train(program, {1, 2, 5, 6});
  CHECK(program.findings.size() == 1);
}

TEST_CASE("module-unregistered names the module below which all uses lie", "[check]") {
  Program program("module-unregistered");
  program.attach(
      1, {{.id = 1, .path = "net.stage.in.weight"}, {.id = 2, .path = "net.stage.out.weight"}});
  program.optimizer(1, {1, 2});
  program.leaf(5, {}, "cuda:0");
  for (int i = 0; i < 2; ++i) {
    program.op({.name = "aten::mm", .inputs = {20, 1}, .outputs = {21}});
    program.op({.name = "aten::t", .inputs = {5}, .outputs = {22}});
    program.op({.name = "aten::mul", .inputs = {21, 5}, .outputs = {23}});
    program.op({.name = "aten::mm", .inputs = {23, 2}, .outputs = {24}});
    program.backward_without_survey({1, 2, 5});
    program.step(1);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].module_path == "net.stage");
  CHECK(program.findings[0].subject == "tensor []");
  CHECK(fact_of<bool>(program.findings[0], "wrong_device"));
}

TEST_CASE("module-unregistered is silent on inputs of steps whose graph was kept", "[check]") {
  Program program("module-unregistered");
  program.attach(1, {{.id = 1, .path = "net.head.weight"}});
  program.optimizer(1, {1});
  for (TensorId input = 5; input < 12; ++input) {
    program.leaf(input);
    std::vector<TensorId> leaves = {1, input};
    leaves.insert(leaves.end(), program.old_leaves.begin(), program.old_leaves.end());
    program.backward(leaves);
    program.old_leaves.push_back(input);
    program.step(1);
  }
  CHECK(program.findings.empty());
}

TEST_CASE("module-unregistered names no layer of LibTorch beside which a tensor is used",
          "[check]") {
  Program program("module-unregistered");
  program.module_types = {{"net.mid", "torch::nn::LinearImpl"}, {"net", "Net"}};
  program.attach(1, {{.id = 1, .path = "net.mid.weight"}});
  program.optimizer(1, {1});
  program.leaf(5, {2, 4});
  for (int i = 0; i < 2; ++i) {
    program.op({.name = "aten::mm", .inputs = {20, 5}, .outputs = {21}});
    program.op({.name = "aten::mm", .inputs = {21, 1}, .outputs = {22}});
    program.backward({1, 5});
    program.step(1);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].module_path == "net");
}

TEST_CASE("module-unregistered counts tensors by the type of their module", "[check]") {
  Program program("module-unregistered");
  program.attach(1, {{.id = 1, .path = "stem.weight"}});
  program.optimizer(1, {1});
  const std::vector<TensorId> loose = {5, 6, 7, 8, 9, 10, 11, 12};
  for (const TensorId id : loose) program.leaf(id);
  for (int i = 0; i < 2; ++i) {
    program.op({.name = "aten::mm", .inputs = {20, 5}, .outputs = {21}});
    if (i == 0) {
      program.loose_module("LayerNormImpl", {5});
      program.loose_module("LinearImpl", {6, 7});
      program.loose_module("LinearImpl", {8});
      program.loose_module("BiasImpl", {9});
      program.loose_module("ScaleImpl", {10});
    }
    program.backward({1, 5, 6, 7, 8, 9, 10, 11, 12});
    program.step(1);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].why.starts_with(
      "live modules use them (3 of LinearImpl, 1 of LayerNormImpl, 1 of BiasImpl, "
      "1 of other types, 2 of a type not seen) through aten::mm, "));
  CHECK(fact_of<std::string>(program.findings[0], "module_type") == "LinearImpl");
}

TEST_CASE("module-unregistered names the registered layer that a member took the place of",
          "[check]") {
  Program program("module-unregistered");
  program.module_types = {{"fc", "LinearImpl"}, {"stem", "LinearImpl"}, {"side", "LinearImpl"}};
  const bool side_is_used = GENERATE(true, false);
  program.attach(1, {{.id = 1, .path = "stem.weight"},
                     {.id = 2, .path = "fc.weight"},
                     {.id = 3, .path = "side.weight"}});
  program.optimizer(1, {1, 2, 3});
  program.leaf(5, {2, 4});
  for (int i = 0; i < 3; ++i) {
    program.loose_module("LinearImpl", {5});
    program.backward(side_is_used ? std::vector<TensorId>{1, 3, 5} : std::vector<TensorId>{1, 5});
    program.step(1);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].module_path == (side_is_used ? "fc" : ""));
  CHECK(program.findings[0].fixes.front().text.starts_with("replace_module(\"fc\", layer)") ==
        side_is_used);
}

TEST_CASE("module-unregistered knows that a layer of several owners may be of a second model",
          "[check]") {
  Program program("module-unregistered");
  program.attach(1, {{.id = 1, .path = "stem.weight"}, {.id = 2, .path = "head.weight"}});
  program.optimizer(1, {1, 2});
  program.leaf(5, {2, 4});
  const bool flows_on = GENERATE(true, false);
  for (int i = 0; i < 2; ++i) {
    program.op({.name = "aten::addmm", .inputs = {20, 1}, .outputs = {21}});
    program.op({.name = "aten::addmm", .inputs = {21, 5}, .outputs = {22}});
    program.op({.name = "aten::addmm", .inputs = {flows_on ? 22U : 21U, 2}, .outputs = {23}});
    LooseModuleEvent layer{.type = "LinearImpl", .is_shared = true};
    layer.tensors.push_back(5);
    program.send_now(std::move(layer));
    program.backward({1, 2, 5});
    program.step(1);
  }
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.what ==
        "1 trainable tensor, 8 elements, is in no optimizer and in no known model; that is 50 % "
        "of what the loss reaches");
  CHECK(finding.why ==
        "a live LinearImpl uses them through aten::addmm, and more than one object holds such a "
        "layer, as in a block that net does not register or in a second model; largest [2, 4]");
  CHECK(finding.fixes.at(flows_on ? 1 : 0).text ==
        "a second model: give its parameters() to an optimizer");
  CHECK(finding.fixes.at(flows_on ? 0 : 1).text.starts_with("a part of net: register_module("));
}

TEST_CASE("module-unregistered counts for each of two models what it found there", "[check]") {
  Program program("module-unregistered");
  program.attach(1, {{.id = 1, .path = "weight"}});
  program.attach(2, {{.id = 2, .path = "weight"}});
  program.optimizer(1, {1});
  program.optimizer(2, {2});
  program.leaf(5, {2, 4});
  program.leaf(6, {2, 4});
  for (int i = 0; i < 3; ++i) {
    program.backward({1, 5});
    program.step(1);
  }
  for (int i = 0; i < 3; ++i) {
    program.backward({2, 5, 6});
    program.step(2);
  }
  REQUIRE(program.findings.size() == 2);
  for (const Finding& finding : program.findings) {
    CHECK(finding.what.starts_with("1 trainable tensor, 8 elements, is registered nowhere"));
  }
}

TEST_CASE("module-unregistered waits 4 cycles where an optimizer may be unknown", "[check]") {
  Program program("module-unregistered");
  program.attach(1, {{.id = 1, .path = "a.weight"}});
  program.leaf(5);
  program.members(1, {{1}});
  train(program, {1, 5}, 3);
  CHECK(program.findings.empty());
  train(program, {1, 5}, 1);
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].confidence == Confidence::kMedium);
}

TEST_CASE("module-unregistered stays silent", "[check]") {
  Program program("module-unregistered");
  program.optimizer(1, {1});
  const std::vector<Registered> net = {{.id = 1, .path = "a.weight"}};
  SECTION("on inputs that require grad and are new in each step") {
    program.attach(1, net);
    for (TensorId input = 50; input < 54; ++input) {
      program.leaf(input);
      train(program, {1, input}, 1);
    }
  }
  SECTION("on what a model held that was detached or died") {
    program.attach(1, net);
    program.attach(2, {{.id = 7, .path = "b.weight"}});
    train(program, {1, 7}, 1);
    program.detach(2);
    train(program, {1, 7});
  }
  SECTION("on tensors that some optimizer holds") {
    program.attach(1, net);
    program.leaf(5);
    program.members(1, {{1, 5}});
    train(program, {1, 5});
  }
  SECTION("on tensors of an optimizer that never stepped") {
    program.attach(1, net);
    program.leaf(5);
    program.optimizer(2, {5});
    train(program, {1, 5});
  }
  SECTION("on the tensors of another attached root") {
    program.attach(1, net);
    program.attach(2, {{.id = 5, .path = "b.weight"}});
    train(program, {1, 5});
  }
  SECTION("on modules in eval mode, which only their own eval() reaches") {
    program.attach(1, net);
    program.leaf(5);
    program.loose_module("Conv2dImpl", {5}, /*evaluates=*/true);
    train(program, {1, 5});
  }
  SECTION("on modules without parameters") {
    program.attach(1, net);
    program.loose_module("ReLUImpl", {});
    train(program, {1});
  }
  SECTION("on the rest of an outer class of which only the inner part is attached") {
    program.attach(1, net);
    program.leaf(5);
    program.leaf(6);
    program.loose_module("OuterImpl", {5, 6});
    program.members(1, {{1, 5, 6}});
    train(program, {1, 5, 6});
  }
  SECTION("where nothing is attached") {
    program.leaf(5);
    train(program, {1, 5});
    program.exit();
  }
  SECTION("on integers") {
    program.attach(1, net);
    program.integer_leaf(5);
    train(program, {1, 5});
  }
  SECTION("on what is declared external") {
    program.attach(1, net);
    program.declare("*", "external");
    program.leaf(5);
    train(program, {1, 5});
  }
  CHECK(program.findings.empty());
}

}  // namespace ddpscope::test::module_unregistered_test
