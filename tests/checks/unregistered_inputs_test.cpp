// What module-unregistered says of inputs that require grad.
#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::unregistered_inputs_test {

TEST_CASE("module-unregistered is silent on what a network is differentiated with respect to",
          "[check]") {
  Program program("module-unregistered");
  const bool is_of_module = GENERATE(false, true);
  program.attach(1, {{.id = 1, .path = "a.weight"}});
  program.optimizer(1, {1});
  program.leaf(5);
  if (is_of_module) program.loose_module("LinearImpl", {5});
  program.send_now(BackwardEvent{.accumulates = false, .asked = {5}});
  for (int i = 0; i < 4; ++i) {
    program.backward({1, 5});
    program.step(1);
  }
  CHECK(program.findings.size() == (is_of_module ? 1U : 0U));
}

TEST_CASE("module-unregistered says a note where registered layers alone read a tensor, as input",
          "[check]") {
  Program program("module-unregistered");
  program.attach(1, {{.id = 1, .path = "stem.weight"}, {.id = 2, .path = "stem.bias"}});
  program.optimizer(1, {1, 2});
  program.leaf(5, {8, 4});
  program.leaf(6, {4, 4});
  const bool is_weight = GENERATE(false, true);
  const bool other_is_weight = GENERATE(false, true);
  for (int i = 0; i < 4; ++i) {
    program.op({.name = "aten::t", .inputs = {1}, .outputs = {20}});
    if (is_weight) {
      program.op({.name = "aten::addmm", .inputs = {2, 21, 5}, .outputs = {22}});
    } else {
      program.op({.name = "aten::addmm", .inputs = {2, 5, 1}, .outputs = {22}});
    }
    if (other_is_weight) program.op({.name = "aten::mm", .inputs = {22, 6}, .outputs = {23}});
    program.backward(other_is_weight ? std::vector<TensorId>{1, 2, 5, 6}
                                     : std::vector<TensorId>{1, 2, 5});
    program.step(1);
  }
  REQUIRE(program.findings.size() == (other_is_weight && !is_weight ? 2 : 1));
  CHECK(program.findings[0].severity ==
        (is_weight || other_is_weight ? Severity::kError : Severity::kNote));
  CHECK(fact_of<std::int64_t>(program.findings[0], "tensors_count") ==
        (is_weight && other_is_weight ? 2 : 1));
  const Finding& last = program.findings.back();
  CHECK(last.why.ends_with("; registered layers read them, as their input") != is_weight);
}

TEST_CASE("module-unregistered remembers what was fed while optimizers are waited for", "[check]") {
  Program program("module-unregistered,checkpoint-load");
  program.attach(1, {{.id = 1, .path = "stem.weight"}, {.id = 2, .path = "stem.bias"}});
  program.members(1, {{1, 2}});  // whose constructor was not seen
  program.leaf(5, {8, 4});
  const bool is_fed = GENERATE(true, false);
  for (int i = 0; i < 6; ++i) {
    if (i < 3) {
      program.op(
          {.name = "aten::addmm",
           .inputs = is_fed ? std::vector<TensorId>{2, 5, 1} : std::vector<TensorId>{2, 1, 5},
           .outputs = {22}});
    }
    program.backward({1, 2, 5});
    program.step(1);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == (is_fed ? Severity::kNote : Severity::kError));
  for (const TensorId id : {1, 2}) {
    program.send_now(ArchiveTensorEvent{.access = ArchiveAccess::kWritten,
                                        .key = id == 1 ? "stem.weight" : "stem.bias",
                                        .tensor = id});
  }
  program.exit();
  CHECK(program.with_id("checkpoint-load").size() == (is_fed ? 0 : 1));
}

TEST_CASE("module-unregistered says a note where layers read what was made of inputs alone",
          "[check]") {
  Program program("module-unregistered");
  program.attach(1, {{.id = 1, .path = "stem.weight"}, {.id = 2, .path = "stem.bias"}});
  program.optimizer(1, {1, 2});
  program.leaf(5, {8, 1});
  program.leaf(6, {8, 1});
  const bool meets_data = GENERATE(false, true);
  for (int i = 0; i < 4; ++i) {
    program.op({.name = "aten::clone", .inputs = {5}, .outputs = {20}});
    program.op({.name = "aten::cat", .inputs = {20, meets_data ? 40U : 6U}, .outputs = {21}});
    program.op({.name = "aten::addmm", .inputs = {2, 21, 1}, .outputs = {22}});
    program.backward(meets_data ? std::vector<TensorId>{1, 2, 5}
                                : std::vector<TensorId>{1, 2, 5, 6});
    program.step(1);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == (meets_data ? Severity::kError : Severity::kNote));
}

TEST_CASE("module-unregistered says a note where layers read detached rows of a tensor",
          "[check]") {
  Program program("module-unregistered");
  program.attach(1, {{.id = 1, .path = "stem.weight"}, {.id = 2, .path = "stem.bias"}});
  program.optimizer(1, {1, 2});
  program.leaf(5, {900, 4});
  program.integer_leaf(7);
  const std::string op = GENERATE("aten::detach", "aten::relu");
  for (int i = 0; i < 4; ++i) {
    program.op({.name = "aten::index", .inputs = {5, 7}, .outputs = {20}});
    program.op({.name = op, .inputs = {20}, .outputs = {21}, .requires_grad = false});
    program.op({.name = "aten::addmm", .inputs = {2, 21, 1}, .outputs = {22}});
    program.op({.name = "aten::exp", .inputs = {20}, .outputs = {23}});
    program.op({.name = "aten::mse_loss", .inputs = {22, 23}, .outputs = {24}});
    program.backward({1, 2, 5});
    program.step(1);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity ==
        (op == "aten::detach" ? Severity::kNote : Severity::kError));
}

TEST_CASE("module-unregistered is silent on what lies behind a graph that is kept", "[check]") {
  Program program("module-unregistered");
  program.attach(1, {{.id = 1, .path = "stem.weight"}});
  program.optimizer(1, {1});
  program.leaf(5, {8, 4});
  const bool is_read_again = GENERATE(false, true);
  for (int i = 0; i < 4; ++i) {
    if (i == 0 || is_read_again) {
      program.op({.name = "aten::mul", .inputs = {5, 40}, .outputs = {20}});
    }
    program.op({.name = "aten::mm", .inputs = {20, 1}, .outputs = {21}});
    program.backward({1, 5});
    program.step(1);
  }
  CHECK(program.findings.size() == (is_read_again ? 1 : 0));
}

TEST_CASE("module-unregistered counts what an earlier training left no more", "[check]") {
  Program program("module-unregistered");
  program.attach(1, {{.id = 1, .path = "stem.weight"}});
  program.optimizer(1, {1});
  for (const TensorId penalty : {5U, 6U}) {
    program.leaf(penalty, {2, penalty == 5 ? 2 : 4});
    for (int i = 0; i < 3; ++i) {
      program.op({.name = "aten::pow", .inputs = {penalty}, .outputs = {20}});
      program.backward({1, penalty});
      program.step(1);
    }
  }
  REQUIRE(program.findings.size() == 2);
  for (const Finding& finding : program.findings) {
    CHECK(fact_of<std::int64_t>(finding, "tensors_count") == 1);
  }
}

TEST_CASE("module-unregistered is a note where one layer is all that is known of a model",
          "[check]") {
  Program program("module-unregistered");
  const std::string type = GENERATE("torch::nn::LinearImpl", "torch::nn::SequentialImpl", "Net");
  TreeEvent tree{.at = program.now(), .model = 1, .label = type};
  tree.modules = {{.id = 9, .path = "", .type = type}};
  RegisteredTensor weight{.module_path = "", .name = "weight"};
  weight.tensor = {
      .id = 1, .elements = 4, .requires_grad = true, .is_leaf = true, .floating = true};
  tree.tensors = {weight};
  program.send_now(std::move(tree));
  program.optimizer(1, {1});
  program.leaf(5, {2, 4});
  for (int i = 0; i < 2; ++i) {
    program.op({.name = "aten::addmm", .inputs = {20, 5}, .outputs = {21}});
    program.op({.name = "aten::addmm", .inputs = {21, 1}, .outputs = {22}});
    LooseModuleEvent layer{.type = "LinearImpl", .is_shared = true};
    layer.tensors.push_back(5);
    program.send_now(std::move(layer));
    program.backward({1, 5});
    program.step(1);
  }
  REQUIRE(program.findings.size() == 1);
  INFO(program.findings[0].what + program.findings[0].why);
  const bool is_layer = type.ends_with("LinearImpl");
  CHECK(program.findings[0].severity == (is_layer ? Severity::kNote : Severity::kError));
}

}  // namespace ddpscope::test::unregistered_inputs_test
