#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::module_mode_test {
namespace {
std::vector<Registered> net(bool affine_trains, bool affine = true) {
  std::vector<Registered> tensors = {
      {.id = 1, .path = "head.weight"},
      {.id = 5, .path = "bn.running_mean", .requires_grad = false, .is_buffer = true}};
  if (affine) tensors.push_back({.id = 2, .path = "bn.weight", .requires_grad = affine_trains});
  return tensors;
}

void train(Program& program, int steps) {
  for (int i = 0; i < steps; ++i) {
    program.backward({1});
    program.step(1);
    program.zero_grad(1);
  }
}

/// Batch norm in training mode, as a survey step sees it.
const TrainingOpEvent kNormTrains = {.op = "aten::batch_norm", .weight = 2, .statistics = 5};
const TrainingOpEvent kDropout = {.op = "aten::dropout", .grad_mode = false, .in_eval = true};

void attach_in(Program& program, const std::set<std::string>& in_eval, bool affine_trains = false) {
  program.in_eval = in_eval;
  program.attach(1, net(affine_trains));
}
}  // namespace

TEST_CASE("module-mode warns of frozen layers that update their statistics", "[check]") {
  Program program("module-mode");
  attach_in(program, {});
  program.optimizer(1, {1});
  program.send_now(kNormTrains);
  train(program, 7);
  CHECK(program.findings.empty());
  train(program, 4);
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(cause_of(finding) == "frozen_norm_updates");
  CHECK(finding.module_path == "bn");
  CHECK(finding.op == "aten::batch_norm");
  CHECK(finding.what ==
        "1 frozen normalisation layer updates its running statistics in training mode "
        "(frozen_norm_updates)");
  CHECK(fact_of<std::int64_t>(finding, "frozen_parameters_count") == 1);
}

TEST_CASE("module-mode warns of a model that stays in eval mode after it trained", "[check]") {
  Program program("module-mode");
  attach_in(program, {});
  program.optimizer(1, {1});
  train(program, 3);
  attach_in(program, {"", "bn", "head"});
  train(program, 9);
  CHECK(program.findings.empty());
  train(program, 8);
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == Severity::kWarning);
  CHECK(cause_of(program.findings[0]) == "eval_while_training");
}

TEST_CASE("module-mode notes once that a whole training runs in eval mode", "[check]") {
  Program program("module-mode");
  attach_in(program, {"", "bn", "head"});
  program.optimizer(1, {1});
  train(program, 30);
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == Severity::kNote);
}

TEST_CASE("module-mode warns of operators that train in an evaluation", "[check]") {
  Program program("module-mode");
  attach_in(program, {});
  TrainingOpEvent op = kDropout;
  const int way = GENERATE(0, 1, 2);
  if (way == 1) op.module = 77;
  if (way == 2) op.statistics = 99;
  program.send_now(op);
  CHECK(program.findings.empty());
  program.send_now(op);
  program.send_now(op);
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == Severity::kWarning);
  CHECK(cause_of(program.findings[0]) == "training_op_in_eval");
  CHECK(program.findings[0].op == "aten::dropout");
  CHECK(fact_of<bool>(program.findings[0], "unregistered") == (way != 0));
}

TEST_CASE("module-mode warns of frozen layers that were loaded after another training", "[check]") {
  Program program("module-mode");
  program.attach(2, {{.id = 9, .path = "weight"}});
  program.backward({9});
  attach_in(program, {});
  program.optimizer(1, {1});
  program.op({.name = "aten::copy_", .inputs = {2, 8}, .outputs = {2}, .grad_mode = false});
  program.send_now(kNormTrains);
  train(program, 10);
  REQUIRE(program.findings.size() == 1);
  CHECK(cause_of(program.findings[0]) == "frozen_norm_updates");
}

TEST_CASE("module-mode tells of a model that is frozen as a whole and used as it was made",
          "[check]") {
  Program program("module-mode");
  program.attach(2, {{.id = 9, .path = "weight"}});
  program.attach(1,
                 {{.id = 5, .path = "bn.running_mean", .requires_grad = false, .is_buffer = true},
                  {.id = 2, .path = "bn.weight", .requires_grad = false}});
  program.optimizer(1, {9});
  program.send_now(kNormTrains);
  for (int i = 0; i < 10; ++i) {
    program.backward({9});
    program.step(1);
    program.zero_grad(1);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].why.starts_with("no parameter of the model trains"));
  CHECK(program.findings[0].fixes.at(0).text == "call eval() of the model before it is used");
}

namespace {
/// A frozen model, with the shape of `weight`, that runs under a guard beside one that trains.
Program beside_a_teacher(std::vector<std::int64_t> shape) {
  Program program("module-mode");
  program.attach(2, {{.id = 9, .path = "weight"}});
  program.attach(
      1, {{.id = 5, .path = "bn.running_mean", .requires_grad = false, .is_buffer = true},
          {.id = 2, .path = "bn.weight", .shape = std::move(shape), .requires_grad = false}});
  program.optimizer(1, {9});
  return program;
}
TrainingOpEvent under_guard() {
  TrainingOpEvent event = kNormTrains;
  event.grad_mode = false;
  return event;
}
template <class Forward>
void train_beside(Program& program, int steps, Forward&& forward) {
  for (int i = 0; i < steps; ++i) {
    forward(i);
    program.op({.name = "aten::mm", .inputs = {30, 9}, .outputs = {31}});
    program.backward({9});
    program.step(1);
    program.zero_grad(1);
  }
}
}  // namespace

TEST_CASE("module-mode warns of a teacher in training mode under a guard", "[check]") {
  Program program = beside_a_teacher({7});
  train_beside(program, 7, [&](int) { program.send_now(under_guard()); });
  CHECK(program.findings.empty());
  train_beside(program, 8, [&](int) { program.send_now(under_guard()); });
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == Severity::kWarning);
  CHECK(cause_of(program.findings[0]) == "frozen_norm_updates");
}

TEST_CASE("module-mode stays silent on frozen layers that run under a guard", "[check]") {
  SECTION("once, as to estimate statistics again") {
    Program once = beside_a_teacher({7});
    for (int i = 0; i < 20; ++i) once.send_now(under_guard());
    train_beside(once, 20, [](int) {});
    CHECK(once.findings.empty());
  }
  SECTION("in a target, which the program writes now and then") {
    Program program = beside_a_teacher({4});
    train_beside(program, 40, [&](int) { program.send_now(under_guard()); });
    CHECK(program.findings.empty());
  }
  SECTION("in an average") {
    Program program = beside_a_teacher({7});
    train_beside(program, 40, [&](int) {
      program.send_now(under_guard());
      program.op({.name = "aten::lerp_", .inputs = {2, 9}, .outputs = {2}, .grad_mode = false});
    });
    CHECK(program.findings.empty());
  }
}

TEST_CASE("module-mode stays silent on layers of a moving average", "[check]") {
  Program program("module-mode");
  attach_in(program, {});
  program.optimizer(1, {1});
  for (int i = 0; i < 12; ++i) {
    program.send_now(kNormTrains);
    train(program, 1);
    program.op({.name = "aten::lerp_", .inputs = {2, 1}, .outputs = {2}, .grad_mode = false});
  }
  CHECK(program.findings.empty());
}

TEST_CASE("module-mode stays silent", "[check]") {
  Program program("module-mode");
  program.optimizer(1, {1});
  SECTION("on statistics that are estimated again without optimizer steps") {
    attach_in(program, {});
    for (int i = 0; i < 20; ++i) program.send_now(kNormTrains);
  }
  SECTION("on layers with trainable affine parameters, and on layers without any") {
    program.attach(1, net(/*affine_trains=*/true, /*affine=*/GENERATE(true, false)));
    program.send_now(kNormTrains);
    train(program, 12);
  }
  SECTION("on frozen layers in eval mode") {
    attach_in(program, {"bn"});
    program.send_now(kNormTrains);
    train(program, 12);
  }
  SECTION("on frozen layers that are put in eval mode within 8 steps") {
    attach_in(program, {});
    program.send_now(kNormTrains);
    train(program, 5);
    attach_in(program, {"bn"});
    train(program, 2);
    attach_in(program, {});
    train(program, 7);
  }
  SECTION("on frozen layers that do not run") {
    attach_in(program, {});
    train(program, 12);
  }
  SECTION("on what is declared intended: Monte-Carlo dropout, a frozen part") {
    attach_in(program, {});
    program.declare("*", "intended");
    program.send_now(kNormTrains);
    for (int i = 0; i < 3; ++i) program.send_now(kDropout);
    train(program, 12);
  }
  SECTION("on dropout outside an evaluation") {
    attach_in(program, {});
    TrainingOpEvent op = kDropout;
    op.in_eval = false;
    for (int i = 0; i < 3; ++i) program.send_now(op);
  }
  SECTION("without an attached module") {
    for (int i = 0; i < 3; ++i) program.send_now(kDropout);
  }
  SECTION("on a model in eval mode that no step changes") {
    attach_in(program, {});
    program.in_eval = {""};
    program.attach(2, {{.id = 9, .path = "teacher.weight"}});
    train(program, 20);
  }
  SECTION("on a model in eval mode that no backward reaches") {
    attach_in(program, {""});
    for (int i = 0; i < 20; ++i) program.step(1);
  }
  SECTION("on two optimizers whose models take turns in eval mode") {
    program.optimizer(2, {9});
    for (int i = 0; i < 24; ++i) {
      const bool first = i % 2 == 0;
      program.backward({1, 9});
      program.step(first ? 1 : 2);
      program.in_eval = first ? std::set<std::string>{} : std::set<std::string>{""};
      program.attach(1, net(true));
    }
  }
  SECTION("where lost events hide the mode") {
    attach_in(program, {});
    program.send_now(kNormTrains);
    program.send_now(kDropout);
    train(program, 5);
    program.drop_events();
    program.send_now(kDropout);
    train(program, 5);
  }
  CHECK(program.findings.empty());
}

}  // namespace ddpscope::test::module_mode_test
