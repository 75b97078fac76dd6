// Branches that are taken by turns, and models beside the one that is trained.
#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::branch_gradients_test {
namespace {
constexpr int kNorms = 5;

/// A body and norms of which one runs in each step.
struct Turns {
  Turns() {
    std::vector<Registered> net = {{.id = 1, .path = "body.weight"}};
    for (TensorId i = 0; i < kNorms; ++i) {
      net.push_back({.id = 10 + i, .path = "bn" + std::to_string(i) + ".weight"});
    }
    net.push_back({.id = 20, .path = "head.weight", .shape = {2, 4}});
    program.attach(1, net);
    std::vector<TensorId> members;
    for (const Registered& one : net) members.push_back(one.id);
    program.optimizer(1, members);
  }
  void step(TensorId norm) {
    program.op({.name = "aten::mm", .inputs = {30, 1}, .outputs = {31}});
    program.op({.name = "aten::batch_norm", .inputs = {31, norm}, .outputs = {32}});
    program.backward({1, norm});
    program.step(1);
    program.zero_grad(1);
  }
  Program program{"grad-missing"};
};

/// Two models in one optimizer; the second enters the loss, the first need not.
struct TwoModels {
  TwoModels() {
    program.attach(1, {{.id = 1, .path = "fc.weight"}});
    program.attach(2, {{.id = 2, .path = "fc.weight"}});
  }
  void step() {
    program.op({.name = "aten::mm", .inputs = {30, 1}, .outputs = {31}});
    program.op({.name = "aten::mm", .inputs = {30, 2}, .outputs = {32}});
    program.backward({2}, {31});
    program.step(1);
    program.zero_grad(1);
  }
  Program program{"grad-missing"};
};

/// A body and two heads, of which one is trained at a time.
struct Heads {
  explicit Heads(std::vector<std::int64_t> shape) {
    program.attach(1, {{.id = 1, .path = "body.weight", .shape = {16, 8}},
                       {.id = 2, .path = "h1.weight", .shape = shape},
                       {.id = 3, .path = "h1.bias"},
                       {.id = 4, .path = "h2.weight", .shape = shape},
                       {.id = 5, .path = "h2.bias"}});
    program.optimizer(1, {1, 2, 3, 4, 5});
  }
  void train(TensorId head, int steps) {
    for (int i = 0; i < steps; ++i) {
      program.op({.name = "aten::mm", .inputs = {30, 1}, .outputs = {31}});
      program.op({.name = "aten::addmm", .inputs = {31, head, head + 1}, .outputs = {32}});
      program.backward({1, head, head + 1});
      program.step(1);
      program.zero_grad(1);
    }
  }
  Program program{"grad-missing"};
};
}  // namespace

TEST_CASE("grad-missing waits for heads that are trained in turn", "[check]") {
  Heads heads({4, 16});
  for (int epoch = 0; epoch < 4; ++epoch) heads.train(epoch % 2 == 0 ? 2 : 4, 12);
  heads.program.exit();
  CHECK(heads.program.findings.empty());
}

TEST_CASE("grad-missing tells what lost its gradients and nothing took the place of", "[check]") {
  Heads heads({4, 16});
  heads.train(2, 10);
  for (int i = 0; i < 5; ++i) {
    heads.program.op({.name = "aten::mm", .inputs = {30, 1}, .outputs = {31}});
    heads.program.backward({1});
    heads.program.step(1);
    heads.program.zero_grad(1);
  }
  REQUIRE(heads.program.findings.size() == 1);
  CHECK(heads.program.findings[0].module_path == "h1");
}

TEST_CASE("grad-missing tells a head whose turn never came", "[check]") {
  Heads heads({4, 16});
  heads.train(2, 8);
  CHECK(heads.program.findings.empty());
  SECTION("at the end") { heads.program.exit(); }
  SECTION("after many cycles") { heads.train(2, 60); }
  REQUIRE(heads.program.findings.size() == 1);
  CHECK(heads.program.findings[0].module_path == "h2");
  CHECK(cause_of(heads.program.findings[0]) == "not_used");
}

TEST_CASE("grad-missing tells a layer at once that could follow another", "[check]") {
  Heads layers({16, 16});
  layers.train(2, 5);
  REQUIRE(layers.program.findings.size() == 1);
  CHECK(layers.program.findings[0].step == 4);
}

TEST_CASE("grad-missing waits for the first turn of branches that are taken by turns", "[check]") {
  Turns turns;
  for (int i = 0; i < 40; ++i) turns.step(10 + i % kNorms);
  REQUIRE(turns.program.findings.size() == 1);
  CHECK(turns.program.findings[0].module_path == "head");  // of no such kind
}

TEST_CASE("grad-missing tells a branch whose turn does not come for long", "[check]") {
  Turns turns;
  for (int i = 0; i < 400; ++i) turns.step(10 + i % (kNorms - 1));
  REQUIRE(turns.program.findings.size() == 2);
  CHECK(turns.program.findings[1].module_path == "bn4");
  CHECK(turns.program.findings[1].step > 200);
}

TEST_CASE("grad-missing tells one of several branches that all others follow", "[check]") {
  Program program("grad-missing");
  program.attach(1, {{.id = 1, .path = "layers.0.weight"},
                     {.id = 2, .path = "layers.1.weight"},
                     {.id = 3, .path = "layers.2.weight"}});
  program.optimizer(1, {1, 2, 3});
  for (int i = 0; i < 5; ++i) {
    program.op({.name = "aten::mm", .inputs = {30, 1}, .outputs = {31}});
    program.op({.name = "aten::mm", .inputs = {31, 3}, .outputs = {32}});
    program.backward({1, 3});
    program.step(1);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].module_path == "layers.1");
}

TEST_CASE("grad-missing tells a model that its optimizer steps and no loss reaches", "[check]") {
  TwoModels models;
  SECTION("where one optimizer holds both") {
    models.program.optimizer(1, {1, 2});
    for (int i = 0; i < 5; ++i) models.step();
    REQUIRE(models.program.findings.size() == 1);
    CHECK(cause_of(models.program.findings[0]) == "output_not_in_loss");
    CHECK(models.program.findings[0].step == 4);
  }
  SECTION("but no neighbour that none holds") {
    models.program.optimizer(1, {2});
    for (int i = 0; i < 8; ++i) models.step();
    CHECK(models.program.findings.empty());
  }
  SECTION("nor one whose optimizer does not step") {
    models.program.optimizer(2, {1});
    models.program.optimizer(1, {2});
    for (int i = 0; i < 8; ++i) models.step();
    CHECK(models.program.findings.empty());
  }
}

}  // namespace ddpscope::test::branch_gradients_test
