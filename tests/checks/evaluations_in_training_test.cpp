#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::evaluations_in_training_test {
namespace {
const JudgedOutputEvent kJudged = {
    .op = "aten::nll_loss", .training_op = "aten::dropout", .weight = 2};

Program trained(int steps = 3) {
  Program program("module-mode");
  program.attach(1, {{.id = 1, .path = "head.weight"}, {.id = 2, .path = "norm.weight"}});
  program.optimizer(1, {1, 2});
  for (int i = 0; i < steps; ++i) {
    program.backward({1, 2});
    program.step(1);
  }
  return program;
}

void step(Program& program, int times = 1) {
  for (int i = 0; i < times; ++i) {
    program.backward({1, 2});
    program.step(1);
  }
}
}  // namespace

TEST_CASE("module-mode warns of outputs that are judged in training mode", "[check]") {
  Program program = trained();
  program.send_now(kJudged);
  program.send_now(kJudged);
  CHECK(program.findings.empty());
  step(program, 3);
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(cause_of(finding) == "evaluation_in_training");
  CHECK(finding.module_path == "norm");
  CHECK(finding.op == "aten::dropout");
  CHECK(finding.what == "the model is evaluated in training mode (evaluation_in_training)");
  CHECK(finding.why ==
        "aten::nll_loss judged 2 forwards or more without grad, in which dropout left values out");
  CHECK(fact_of<std::string>(finding, "loss_op") == "aten::nll_loss");
}

TEST_CASE("module-mode warns at the end of one judged output that nothing follows", "[check]") {
  Program program = trained();
  JudgedOutputEvent judged = kJudged;
  judged.weight = 0;  // where hooks rest
  program.send_now(judged);
  step(program, GENERATE(0, 4));
  CHECK(program.findings.empty());
  program.send_now(ExitEvent{});
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].module_path.empty());
}

TEST_CASE("module-mode takes losses of each step for a part of it", "[check]") {
  Program program = trained();
  for (int i = 0; i < 6; ++i) {
    for (int trial = 0; trial < 3; ++trial) program.send_now(kJudged);
    step(program);
  }
  step(program, 3);
  program.send_now(ExitEvent{});
  CHECK(program.findings.empty());
}

TEST_CASE("module-mode takes losses of each step for a part of it where hooks rest in between",
          "[check]") {
  Program program = trained();
  for (const std::int64_t step : {10, 11, 12, 40, 41, 42, 80, 81}) {
    auto judged = std::make_unique<JudgedOutputEvent>(kJudged);
    judged->at = {.step = step, .cycle = step, .thread = 1};
    program.send(std::move(judged));
  }
  program.send_now(ExitEvent{});
  CHECK(program.findings.empty());
}

TEST_CASE("module-mode takes losses for a part of steps whose outputs went unjudged", "[check]") {
  Program program = trained();
  JudgedOutputEvent judged = kJudged;
  judged.unjudged_in_row = GENERATE(0, 1, 2, 5);
  for (int i = 0; i < 3; ++i) program.send_now(judged);
  program.send_now(ExitEvent{});
  CHECK(program.findings.size() == (judged.unjudged_in_row < 2 ? 1 : 0));
}

TEST_CASE("module-mode warns of operators that ignore eval() where hooks rest", "[check]") {
  Program program = trained(GENERATE(0, 3));
  JudgedOutputEvent judged = kJudged;
  judged.in_eval = true;
  judged.weight = 0;
  program.send_now(judged);
  CHECK(program.findings.empty());
  for (int i = 0; i < 3; ++i) program.send_now(judged);
  program.send_now(ExitEvent{});
  REQUIRE(program.findings.size() == 1);
  CHECK(cause_of(program.findings[0]) == "training_op_in_eval");
  CHECK(program.findings[0].op == "aten::dropout");
}

TEST_CASE("module-mode does not judge models that are not trained, in eval mode or declared",
          "[check]") {
  const int way = GENERATE(0, 1, 2);
  Program program = trained(way == 0 ? 0 : 3);
  JudgedOutputEvent judged = kJudged;
  judged.in_eval = way == 1;
  judged.module = 7;
  if (way == 2) program.declare("*", "intended");
  for (int i = 0; i < 3; ++i) program.send_now(judged);
  program.send_now(ExitEvent{});
  CHECK(program.findings.empty());
}

}  // namespace ddpscope::test::evaluations_in_training_test
