// How many findings grad-missing makes of the parameters that are missing, and where.
#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::missing_tensors_test {
namespace {
/// Steps in which `forward` runs and parameter 1 alone receives a gradient.
template <class Forward>
void train(Program& program, int steps, Forward&& forward) {
  for (int i = 0; i < steps; ++i) {
    program.op({.name = "aten::mm", .inputs = {20, 1}, .outputs = {21}});
    forward();
    program.backward({1});
    program.step(1);
    program.zero_grad(1);
  }
}

/// The path of parameter 4 ends at `add_`, that of the others at `div`.
void end_at_two(Program& program) {
  for (TensorId weight = 2; weight <= 4; ++weight) {
    program.op({.name = weight == 4 ? "aten::add_" : "aten::div",
                .inputs = {21, weight},
                .outputs = {weight + 20}});
  }
}
}  // namespace

TEST_CASE("grad-missing says where no backward ran before the steps", "[check]") {
  Program program("grad-missing");
  program.attach(1, {{.id = 1, .path = "body.weight"}});
  program.optimizer(1, {1});
  for (int i = 0; i < 5; ++i) {
    program.op({.name = "aten::mm", .inputs = {20, 1}, .outputs = {21}});
    program.step(1);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == Severity::kWarning);
  CHECK(fact_of<std::string>(program.findings[0], "cause") == "no_backward");
}

TEST_CASE("grad-missing names a layer that was only cloned when the model was made", "[check]") {
  Program program("grad-missing");
  program.attach(1, {{.id = 1, .path = "head.weight"}, {.id = 2, .path = "layer.weight"}});
  const bool is_held = GENERATE(true, false);
  program.optimizer(1, is_held ? std::vector<TensorId>{1, 2} : std::vector<TensorId>{1});
  const std::string op = GENERATE("aten::clone", "aten::mul");
  program.op({.name = op, .inputs = {2}, .outputs = {30}, .grad_mode = false});
  for (int i = 0; i < 5; ++i) {
    program.op({.name = "aten::mm", .inputs = {20, 1}, .outputs = {21}});
    program.backward({1});
    program.step(1);
    program.zero_grad(1);
  }
  if (!is_held) {  // a copy that the program keeps
    CHECK(program.findings.empty());
    return;
  }
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(cause_of(finding) == (op == "aten::clone" ? "not_used" : "grad_mode_off"));
  CHECK(finding.fixes[0].text.starts_with("do not register the layer that was cloned") ==
        (op == "aten::clone"));
}

TEST_CASE("grad-missing tells a state that is registered and replaced from an unused layer",
          "[check]") {
  Program program("grad-missing");
  program.attach(1, {{.id = 1, .path = "body.weight"}, {.id = 2, .path = "state"}});
  program.optimizer(1, {1, 2});
  const std::string op = GENERATE("aten::lstm", "aten::_to_copy");  // a move to a device
  program.op({.name = op, .inputs = {20, 2}, .outputs = {30}});
  train(program, 5, [] {});
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(cause_of(finding) == "not_used");
  CHECK(finding.op == (op == "aten::lstm" ? op : ""));
  CHECK(finding.fixes[0].text.starts_with("a state: ") == (op == "aten::lstm"));
}

TEST_CASE("grad-missing notes what was used before, as a learned initial state", "[check]") {
  Program program("grad-missing");
  program.attach(1, {{.id = 1, .path = "body.weight"}, {.id = 2, .path = "body.h0"}});
  program.optimizer(1, {1, 2});
  const int steps = GENERATE(1, 8);
  for (int i = 0; i < steps; ++i) {
    program.op({.name = "aten::add", .inputs = {20, 2}, .outputs = {30}});
    program.backward({1, 2});
    program.step(1);
    program.zero_grad(1);
  }
  train(program, 17, [] {});
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  // One that was there in each of many steps is missed.
  CHECK(finding.severity == (steps == 1 ? Severity::kNote : Severity::kWarning));
  CHECK(cause_of(finding) == "not_used");
  CHECK(finding.why.ends_with("; the last gradient came in step " + std::to_string(steps)));
  for (const Fix& fix : finding.fixes) CHECK(fix.text.find("remove") == std::string::npos);
}

TEST_CASE("grad-missing says that a parameter is no leaf", "[check]") {
  Program program("grad-missing");
  program.attach(1, {{.id = 1, .path = "body.weight"}, {.id = 2, .path = "scaled"}});
  program.optimizer(1, {1});
  const bool is_leaf = GENERATE(true, false);
  program.send(std::make_unique<TensorEvent>(TensorEvent{program.now(),
                                                         {.id = 2,
                                                          .shape = {4},
                                                          .elements = 4,
                                                          .requires_grad = true,
                                                          .is_leaf = is_leaf,
                                                          .floating = true}}));
  train(program, 5, [] {});
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == (is_leaf ? Severity::kNote : Severity::kWarning));
  CHECK(cause_of(finding) == (is_leaf ? "not_used" : "not_leaf"));
  CHECK((finding.fixes[0].text.find("requires_grad_(true)") != std::string::npos) == !is_leaf);
}

TEST_CASE("grad-missing tells what was used before apart from what never was", "[check]") {
  Program program("grad-missing");
  program.attach(1, {{.id = 1, .path = "body.weight"},
                     {.id = 2, .path = "cell.h0"},
                     {.id = 3, .path = "cell.never"}});
  program.optimizer(1, {1, 2, 3});
  program.op({.name = "aten::add", .inputs = {20, 2}, .outputs = {30}});
  program.backward({1, 2});
  program.step(1);
  train(program, 17, [] {});
  REQUIRE(program.findings.size() == 2);
  CHECK(program.findings[0].severity == Severity::kWarning);
  CHECK(program.findings[0].subject == "never");
  CHECK(program.findings[1].severity == Severity::kNote);
  CHECK(program.findings[1].subject == "h0");
}

TEST_CASE("grad-missing tells results of other shapes in one finding", "[check]") {
  Program program("grad-missing");
  program.attach(1, {{.id = 1, .path = "body.weight"},
                     {.id = 2, .path = "a.w1"},
                     {.id = 3, .path = "a.w2"},
                     {.id = 4, .path = "b.w1"},
                     {.id = 5, .path = "b.w2"}});
  program.optimizer(1, {1, 2, 3, 4, 5});
  train(program, 5, [&] {
    for (TensorId weight = 2; weight <= 5; ++weight) {
      const std::int64_t columns = weight % 2 == 0 ? 4 : 8;
      program.op({.name = "aten::mm",
                  .inputs = {21, weight},
                  .outputs = {weight + 20},
                  .shape = {32, columns}});
    }
  });
  REQUIRE(program.findings.size() == 2);
  CHECK(program.findings[0].module_path == "a");
  CHECK(program.findings[0].what.starts_with("2 parameters"));
  CHECK(program.findings[0].why.starts_with("they ran; the output of aten::mm was gone before"));
}

TEST_CASE("grad-missing tells paths from one module in one finding", "[check]") {
  Program program("grad-missing");
  program.attach(1, {{.id = 1, .path = "body.weight"},
                     {.id = 2, .path = "attention.in_weight"},
                     {.id = 3, .path = "attention.in_bias"},
                     {.id = 4, .path = "attention.out.weight"}});
  program.optimizer(1, {1, 2, 3, 4});
  train(program, 5, [&] { end_at_two(program); });
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.module_path == "attention");
  CHECK(finding.op == "aten::add_");
  CHECK(finding.what.starts_with("3 parameters (12 elements)"));
  CHECK(finding.why.starts_with("they ran; the output of aten::add_ [8, 32] and 1 other was gone"));
}

TEST_CASE("grad-missing tells paths from modules of their own apart", "[check]") {
  Program program("grad-missing");
  program.attach(1, {{.id = 1, .path = "body.weight"},
                     {.id = 2, .path = "heads.a.weight"},
                     {.id = 3, .path = "heads.a.bias"},
                     {.id = 4, .path = "heads.b.weight"}});
  program.optimizer(1, {1, 2, 3, 4});
  train(program, 5, [&] { end_at_two(program); });
  REQUIRE(program.findings.size() == 2);
  for (const Finding& finding : program.findings) {
    const bool is_a = finding.module_path == "heads.a";
    CHECK((is_a || finding.module_path == "heads.b"));
    CHECK(finding.op == (is_a ? "aten::div" : "aten::add_"));
    CHECK(finding.why.find("other") == std::string::npos);
  }
}

}  // namespace ddpscope::test::missing_tensors_test
