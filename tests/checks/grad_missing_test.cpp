#include "tests/support/catch.h"
#include "tests/support/stale_events.h"

namespace ddpscope::test::grad_missing_test {
namespace {
const std::vector<Registered> kNet = {{.id = 1, .path = "body.weight"},
                                      {.id = 2, .path = "fc4.weight", .shape = {32, 32}},
                                      {.id = 3, .path = "fc4.bias", .shape = {32}}};

/// Steps in which `forward` runs and only the given leaves receive a gradient.
template <class Forward>
void train(Program& program, const std::vector<TensorId>& leaves, int steps, Forward&& forward,
           std::vector<TensorId> alive = {}) {
  for (int i = 0; i < steps; ++i) {
    program.op({.name = "aten::mm", .inputs = {20, 1}, .outputs = {21}});
    forward();
    program.backward(leaves, alive);
    program.step(1);
    program.zero_grad(1);
  }
}
void nothing() {}
}  // namespace

TEST_CASE("grad-missing is a note on what no optimizer holds and no forward uses", "[check]") {
  Program program("grad-missing");
  program.attach(1, kNet);
  const bool is_held = GENERATE(true, false);
  program.optimizer(1, is_held ? std::vector<TensorId>{1, 2, 3} : std::vector<TensorId>{1});
  train(program, {1}, 5, nothing);
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == (is_held ? Severity::kWarning : Severity::kNote));
}

TEST_CASE("grad-missing waits for branches that are taken now and then", "[check]") {
  Program program("grad-missing");
  program.attach(1, kNet);
  program.optimizer(1, {1, 2, 3});
  const std::vector<TensorId> all = {1, 2, 3};
  const auto use = [&](std::int64_t times, std::int64_t without) {
    for (int i = 0; i < times; ++i) {
      train(program, all, 1, nothing);
      train(program, {1}, static_cast<int>(without), nothing);
    }
  };
  SECTION("sixteen times as long as it takes on average") {
    use(4, 2);
    train(program, {1}, 36, nothing);
    CHECK(program.findings.empty());
    train(program, {1}, 2, nothing);
  }
  SECTION("or as at first, after one that was always taken") {
    use(8, 0);
    train(program, {1}, 3, nothing);
    CHECK(program.findings.empty());
    train(program, {1}, 2, nothing);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].module_path == "fc4");
}

TEST_CASE("grad-missing reports after 4 cycles and states why", "[check]") {
  Program program("grad-missing");
  program.attach(1, kNet);
  program.optimizer(1, {1, 2, 3});
  std::string cause;
  std::string op = "aten::addmm";
  const auto addmm = [&] {
    program.op({.name = "aten::addmm", .inputs = {3, 21, 2}, .outputs = {22}});
    program.op({.name = "aten::linear", .inputs = {21, 2, 3}, .outputs = {22}});
  };
  SECTION("a second head that enters no loss") {
    train(program, {1}, 5, addmm, /*alive=*/{22});
    cause = "output_not_in_loss";
  }
  SECTION("a result that is dropped") {
    train(program, {1}, 5, addmm);
    cause = "result_dropped";
  }
  SECTION("a layer that is never called") {
    train(program, {1}, 5, nothing);
    cause = "not_used";
    op = "";
  }
  SECTION("a layer that is never called, of a model that was moved to another type") {
    program.op({.name = "aten::_to_copy", .inputs = {2}, .outputs = {30}});
    program.op({.name = "aten::_to_copy", .inputs = {3}, .outputs = {31}});
    train(program, {1}, 5, nothing);
    cause = "not_used";
    op = "";
  }
  SECTION("a layer under a guard") {
    train(program, {1}, 5, [&] {
      program.op(
          {.name = "aten::addmm", .inputs = {3, 21, 2}, .outputs = {22}, .grad_mode = false});
    });
    cause = "grad_mode_off";
  }
  SECTION("a cut on the way to the loss") {
    train(program, {1}, 5, [&] {
      addmm();
      program.op({.name = "aten::detach", .inputs = {22}, .outputs = {23}, .requires_grad = false});
      program.op({.name = "aten::add", .inputs = {23, 21}, .outputs = {24}});
    });
    cause = "cut";
  }
  SECTION("a function that returned nothing") {
    train(program, {1}, 5, [&] {
      program.gradient_undefined(2);
      program.gradient_undefined(3);
    });
    cause = "function_returned_nothing";
    op = "";
  }
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.step == 4);
  CHECK(finding.module_path == "fc4");
  CHECK(finding.op == op);
  CHECK(finding.what == "2 parameters (1056 elements) got no gradient in 4 cycles: " + cause);
  CHECK(cause_of(finding) == cause);
  CHECK(fact_of<std::string>(finding, "path_end_op") == op);
  CHECK(fact_of<std::int64_t>(finding, "window_steps") == 4);
}

TEST_CASE("grad-missing names the line of a cut and the finding that explains it", "[check]") {
  LinesByStack lines;
  Program program("grad-missing,autograd-cut", &lines);
  program.attach(1, kNet);
  program.optimizer(1, {1, 2, 3});
  program.roots = {24};
  train(program, {1}, 4, [&] {
    program.op({.name = "aten::addmm", .inputs = {3, 21, 2}, .outputs = {22}});
    program.op({.name = "aten::detach",
                .inputs = {22},
                .outputs = {23},
                .requires_grad = false,
                .stack = 64});
    program.op({.name = "aten::add", .inputs = {23, 21}, .outputs = {24}});
  });
  const Findings cuts = program.with_id("autograd-cut");
  const Findings missing = program.with_id("grad-missing");
  REQUIRE(cuts.size() > 0);
  REQUIRE(missing.size() == 1);
  CHECK(missing[0].why ==
        "what follows aten::addmm [8, 32] went on without a gradient path; cut by aten::detach "
        "(train.cpp:64)");
  CHECK(missing[0].caused_by == cuts[0].fingerprint);
}

TEST_CASE("grad-missing stays undecided without operator records", "[check]") {
  Program program("grad-missing");
  program.attach(1, kNet);
  program.optimizer(1, {1, 2, 3});
  for (int i = 0; i < 5; ++i) {
    program.backward_without_survey({1});
    program.step(1);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == Severity::kNote);
  CHECK(program.findings[0].evidence_status == EvidenceStatus::kUndecided);
}

TEST_CASE("grad-missing stays silent", "[check]") {
  Program program("grad-missing");
  SECTION("on frozen parameters") {
    program.attach(
        1, {{.id = 1, .path = "a.weight"}, {.id = 2, .path = "b.weight", .requires_grad = false}});
    program.optimizer(1, {1});
    train(program, {1}, 6, nothing);
  }
  SECTION("on a branch that is used once in 4 cycles") {
    program.attach(1, kNet);
    program.optimizer(1, {1, 2, 3});
    for (int i = 0; i < 4; ++i) {
      train(program, {1}, 3, nothing);
      train(program, {1, 2, 3}, 1, nothing);
    }
  }
  SECTION("on a generator that waits for its first step") {
    program.attach(1, kNet);
    program.optimizer(1, {1});
    program.optimizer(2, {2, 3});
    train(program, {1}, 6, nothing);
  }
  SECTION("on a generator whose optimizer was built before capture") {
    program.attach(1, kNet);
    program.members(1, {{1}});
    train(program, {1}, 6, nothing);
  }
  SECTION("on copies that are written and never had a gradient") {
    program.attach(1, kNet);
    program.optimizer(1, {1});
    train(program, {1}, 6, [&] {
      program.op({.name = "aten::lerp_", .inputs = {2, 1}, .outputs = {2}, .grad_mode = false});
      program.op({.name = "aten::lerp_", .inputs = {3, 1}, .outputs = {3}, .grad_mode = false});
    });
  }
  SECTION("on copies that only run with grad mode off") {
    program.attach(1, kNet);
    program.optimizer(1, {1});
    train(program, {1}, 6, [&] {
      program.op(
          {.name = "aten::addmm", .inputs = {3, 21, 2}, .outputs = {22}, .grad_mode = false});
    });
  }
  SECTION("on a neighbour model and one that only runs in eval") {
    program.attach(1, {{.id = 1, .path = "a.weight"}});
    program.attach(2, {{.id = 2, .path = "b.weight"}});
    program.optimizer(1, {1, 2});
    train(program, {1}, 6, nothing);
  }
  SECTION("on a gradient that is all zero") {
    program.attach(1, kNet);
    program.optimizer(1, {1, 2, 3});
    train(program, {1, 2, 3}, 6, nothing);
  }
  SECTION("on a gradient that was set without backward") {
    program.attach(1, kNet);
    program.optimizer(1, {1, 2, 3});
    for (int i = 0; i < 6; ++i) {
      program.backward({1});
      program.clear({2, 3}, GradientBefore::kReset);
      program.step(1);
    }
  }
  SECTION("before 4 cycles have passed") {
    program.attach(1, kNet);
    program.optimizer(1, {1, 2, 3});
    train(program, {1}, 3, nothing);
  }
  SECTION("on declared parts") {
    program.attach(1, kNet);
    program.declare("fc4.*", "intended");
    program.optimizer(1, {1, 2, 3});
    train(program, {1}, 6, nothing);
  }
  CHECK(program.findings.empty());
}

TEST_CASE("grad-missing reports gradients that are cleared before the step", "[check]") {
  Program program("grad-missing");
  program.attach(1, kNet);
  program.optimizer(1, {1, 2, 3});
  const auto cycles = [&](int count, bool cleared) {
    for (int i = 0; i < count; ++i) {
      program.backward({1, 2, 3});
      if (cleared) program.zero_grad(1);
      program.step(1);
      if (!cleared) program.zero_grad(1);
    }
  };
  SECTION("from the start") { cycles(4, true); }
  SECTION("after steps that were right") {
    cycles(3, false);
    cycles(3, true);
    CHECK(program.findings.empty());
    cycles(1, true);
  }
  SECTION("not where a step between them is right") {
    cycles(3, true);
    cycles(1, false);
    cycles(3, true);
    CHECK(program.findings.empty());
    return;
  }
  SECTION("not of an optimizer of the program's own, which may clear them in its step") {
    program.optimizer_type = "mine::Sgd";
    cycles(8, true);
    CHECK(program.findings.empty());
    return;
  }
  SECTION("not where the step runs a closure") {
    for (int i = 0; i < 8; ++i) {
      program.backward({1, 2, 3});
      program.zero_grad(1);
      program.step(1, /*with_closure=*/true);
    }
    CHECK(program.findings.empty());
    return;
  }
  cycles(4, true);
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.phase == Phase::kOptimizer);
  CHECK(cause_of(finding) == "cleared_before_step");
  CHECK(finding.what.ends_with("stepped without a gradient in 4 cycles: cleared_before_step"));
  CHECK(finding.fixes.at(0).text == "keep the order zero_grad(), backward(), step()");
  CHECK(fact_of<std::int64_t>(finding, "parameters_count") == 3);
}

}  // namespace ddpscope::test::grad_missing_test
