#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::optim_foreign_parameter_test {
namespace {
const std::vector<Registered> kNet = {{.id = 1, .path = "body.weight", .shape = {8}},
                                      {.id = 2, .path = "fc.weight", .shape = {4}}};

void train(Program& program, const std::vector<TensorId>& leaves, int steps, OptimizerId by = 1) {
  for (int i = 0; i < steps; ++i) {
    program.backward(leaves);
    program.step(by);
    program.zero_grad(by);
  }
}
}  // namespace

TEST_CASE("optim-foreign-parameter reports members whose twins are in no optimizer", "[check]") {
  Program program("optim-foreign-parameter");
  program.leaf(9);
  program.attach(1, kNet);
  program.optimizer(1, {1, 9});
  train(program, {1, 2}, 2);
  CHECK(program.findings.empty());
  train(program, {1, 2}, 4);
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.step == 3);
  CHECK(finding.subject == "SGD");
  CHECK(cause_of(finding) == "stale_copy");
  CHECK(finding.what ==
        "1 member (4 elements) is stale; the model has other tensors of the same shapes in "
        "no optimizer: fc.weight (stale_copy)");
}

TEST_CASE("optim-foreign-parameter explains why the twins are in no optimizer", "[check]") {
  Program program("optim-foreign-parameter,optim-missing-parameter");
  program.leaf(9);
  program.attach(1, kNet);
  program.optimizer(1, {1, 9});
  train(program, {1, 2}, 6);
  const Findings stale = program.with_id("optim-foreign-parameter");
  REQUIRE(stale.size() == 1);
  const Findings all = program.judge().findings();
  const auto missing = std::ranges::find(all, "optim-missing-parameter", &Finding::id);
  REQUIRE(missing != all.end());
  CHECK(missing->caused_by == stale[0].fingerprint);
}

TEST_CASE("optim-foreign-parameter is silent on codes of samples that train in turn", "[check]") {
  Program program("optim-foreign-parameter");
  for (const TensorId code : {11, 12, 13, 14, 15, 16}) program.leaf(code, {3});
  program.attach(1, kNet);
  program.optimizer(1, {1, 2, 11, 12, 13, 14, 15, 16});
  for (int step = 0; step < 24; ++step) {
    train(program, {1, 2, static_cast<TensorId>(11 + step % 6)}, 1);
  }
  CHECK(program.findings.empty());
}

TEST_CASE("optim-foreign-parameter warns of members that never get gradients", "[check]") {
  Program program("optim-foreign-parameter");
  program.leaf(9, {3});
  program.attach(1, kNet);
  program.optimizer(1, {1, 2, 9});
  const bool had_gradients = GENERATE(false, true);
  if (had_gradients) train(program, {1, 2, 9}, 1);
  train(program, {1, 2}, 4);
  REQUIRE(program.findings.size() == 1);
  CHECK(cause_of(program.findings[0]) == "unknown_tensor");
  CHECK(program.findings[0].severity == (had_gradients ? Severity::kNote : Severity::kWarning));
}

TEST_CASE("optim-foreign-parameter takes no owned, frozen or other shape for a twin", "[check]") {
  Program program("optim-foreign-parameter");
  program.leaf(9);
  const int way = GENERATE(0, 1, 2);
  program.attach(
      1, {{.id = 1, .path = "body.weight", .shape = {8}},
          {.id = 2, .path = "fc.weight", .shape = {way == 2 ? 5 : 4}, .requires_grad = way != 1}});
  program.optimizer(1, way == 0 ? std::vector<TensorId>{1, 2, 9} : std::vector<TensorId>{1, 9});
  train(program, {1}, 4);
  REQUIRE(program.findings.size() == 1);
  CHECK(cause_of(program.findings[0]) == "unknown_tensor");
}

TEST_CASE("optim-foreign-parameter takes no offloaded copy for a stale one", "[check]") {
  Program program("optim-foreign-parameter");
  program.leaf(9);
  program.attach(1, kNet);
  program.optimizer(1, {1, 9});
  const bool is_written_back = GENERATE(true, false);
  for (int i = 0; i < 6; ++i) {
    program.clear({9}, GradientBefore::kReset);  // the program gives it one
    train(program, {1, 2}, 1);
    if (!is_written_back) continue;
    program.op({.name = "aten::copy_", .inputs = {2, 9}, .outputs = {2}, .grad_mode = false});
  }
  CHECK(program.findings.empty() == is_written_back);
}

TEST_CASE("optim-foreign-parameter takes no chance of shapes for a copy", "[check]") {
  Program program("optim-foreign-parameter");
  const std::int64_t like = GENERATE(4, 9);
  program.leaf(21, {like});
  program.leaf(22, {7});
  program.leaf(23, {8});
  program.attach(1, kNet);
  program.optimizer(1, {21, 22, 23});
  for (int i = 0; i < 6; ++i) {
    program.clear({21, 22, 23}, GradientBefore::kReset);
    train(program, {1, 2}, 1);
  }
  CHECK(program.findings.empty() == (like == 9));
}

TEST_CASE("optim-foreign-parameter stays silent", "[check]") {
  Program program("optim-foreign-parameter");
  program.leaf(9);
  SECTION("on raw tensors that get gradients") {
    program.attach(1, kNet);
    program.optimizer(1, {9});
    train(program, {9}, 6);
  }
  SECTION("on raw tensors whose gradients the program gives") {
    program.attach(1, kNet);
    program.leaf(9, {3});
    program.optimizer(1, {1, 9});
    for (int i = 0; i < 6; ++i) {
      program.clear({9}, GradientBefore::kReset);
      train(program, {1}, 1);
    }
  }
  SECTION("without an attached module") {
    program.optimizer(1, {9});
    program.leaf(8);
    train(program, {8}, 6);
  }
  SECTION("on members that are frozen on purpose") {
    program.attach(1, kNet);
    program.create(1);
    program.members(1, {{1, 9}}, /*frozen=*/{9});
    train(program, {1, 2}, 6);
  }
  SECTION("on an optimizer that was built anew after the change") {
    program.attach(1, kNet);
    program.optimizer(1, {1, 2});
    train(program, {1, 2}, 2);
    program.attach(1, {kNet[0], {.id = 3, .path = "fc.weight", .shape = {4}}});
    program.optimizer(2, {1, 3});
    train(program, {1, 3}, 6, /*by=*/2);
  }
  SECTION("on an optimizer that never steps") {
    program.attach(1, kNet);
    program.optimizer(1, {1, 2});
    program.optimizer(2, {9});
    train(program, {1, 2}, 6);
  }
  SECTION("on the members of a root that was detached") {
    program.attach(1, kNet);
    program.attach(2, {{.id = 9, .path = "a.weight"}});
    program.optimizer(1, {1, 2, 9});
    train(program, {1, 2, 9}, 1);
    program.detach(2);
    train(program, {1, 2}, 6);
  }
  SECTION("where a gradient comes at least once in 3 cycles") {
    program.attach(1, kNet);
    program.optimizer(1, {1, 2, 9});
    for (int i = 0; i < 4; ++i) {
      train(program, {1, 2}, 2);
      train(program, {1, 2, 9}, 1);
    }
  }
  SECTION("where lost events hide gradients") {
    program.attach(1, kNet);
    program.optimizer(1, {1, 2, 9});
    train(program, {1, 2}, 2);
    program.drop_events();
    train(program, {1, 2}, 2);
  }
  CHECK(program.findings.empty());
}

}  // namespace ddpscope::test::optim_foreign_parameter_test
