#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::loss_double_softmax_test {
namespace {
const std::vector<Registered> kNet = {{.id = 1, .path = "out.weight"}};
constexpr ModuleId kOut = 1001;

/// `ops` one after the other on what the head returned, then the mean.
void run(Program& program, const std::vector<std::string>& ops, bool grad_mode = true) {
  program.op({.name = "aten::addmm", .inputs = {30, 1}, .outputs = {31}, .module = kOut});
  TensorId last = 31;
  for (const std::string& op : ops) {
    program.op({.name = op,
                .inputs = {last, 90},
                .outputs = {last + 1},
                .module = op == ops.front() ? kOut : 0,
                .grad_mode = grad_mode});
    ++last;
  }
  program.roots = {last};
}

void train(Program& program, const std::vector<std::string>& ops, int steps,
           bool grad_mode = true) {
  program.attach(1, kNet);
  program.optimizer(1, {1});
  for (int i = 0; i < steps; ++i) {
    run(program, ops, grad_mode);
    program.backward({1});
    program.step(1);
  }
}
}  // namespace

TEST_CASE("loss-double-softmax names both operators after two steps", "[check]") {
  Program program("loss-double-softmax");
  const std::vector<std::string> ops = {"aten::_softmax", "aten::_log_softmax",
                                        "aten::nll_loss_forward"};
  train(program, ops, 1);
  CHECK(program.findings.empty());
  train(program, ops, 1);
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.module_path == "out");
  CHECK(finding.op == "aten::softmax");
  CHECK(finding.what == "its output enters cross_entropy, which applies log-softmax again");
  CHECK(finding.fixes[0].text == "return logits from forward and use softmax outside of training");
  CHECK(fact_of<std::string>(finding, "pattern") == "softmax_log_softmax");
  CHECK(fact_of<std::string>(finding, "producer_op") == "aten::softmax");
  CHECK(fact_of<std::string>(finding, "loss_op") == "aten::cross_entropy");
}

TEST_CASE("loss-double-softmax tells the values where they are known", "[check]") {
  Program program("loss-double-softmax");
  program.attach(1, kNet);
  program.optimizer(1, {1});
  for (int i = 0; i < 2; ++i) {
    program.send_now(LossInputEvent{.input = 32, .minimum = 0.02, .maximum = 0.91});
    run(program, {"aten::_softmax", "aten::_log_softmax", "aten::nll_loss_forward"});
    program.backward({1});
    program.step(1);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].why.starts_with("its values lie in [0.02, 0.91]; "));
  CHECK(fact_of<double>(program.findings[0], "input_min") == 0.02);
  CHECK(fact_of<double>(program.findings[0], "input_max") == 0.91);
}

TEST_CASE("loss-double-softmax knows these patterns", "[check]") {
  struct Case {
    std::vector<std::string> ops;
    std::string pattern;
    Severity severity;
    std::string loss;
  };
  const Case known = GENERATE(values<Case>({
      {{"aten::_softmax", "aten::_log_softmax"},
       "softmax_log_softmax",
       Severity::kWarning,
       "aten::log_softmax"},
      {{"aten::sigmoid", "aten::binary_cross_entropy_with_logits"},
       "sigmoid_bce_with_logits",
       Severity::kWarning,
       "aten::binary_cross_entropy_with_logits"},
      {{"aten::_softmax", "aten::nll_loss_forward"},
       "softmax_nll_loss",
       Severity::kError,
       "aten::nll_loss_forward"},
      {{"aten::_softmax", "aten::nll_loss2d_forward"},
       "softmax_nll_loss",
       Severity::kError,
       "aten::nll_loss2d_forward"},
      {{"aten::linear", "aten::view", "aten::nll_loss_forward"},
       "logits_nll_loss",
       Severity::kError,
       "aten::nll_loss_forward"},
      {{"aten::_log_softmax", "aten::_log_softmax"},
       "log_softmax_twice",
       Severity::kNote,
       "aten::log_softmax"},
      {{"aten::relu", "aten::_log_softmax", "aten::nll_loss_forward"},
       "relu_cross_entropy",
       Severity::kNote,
       "aten::cross_entropy"},
      {{"aten::_softmax", "aten::view", "aten::slice", "aten::_to_copy", "aten::_log_softmax"},
       "softmax_log_softmax",
       Severity::kWarning,
       "aten::log_softmax"},
      {{"aten::_softmax", "aten::clamp", "aten::_log_softmax"},
       "softmax_log_softmax",
       Severity::kWarning,
       "aten::log_softmax"},
  }));
  Program program("loss-double-softmax");
  train(program, known.ops, 2);
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == known.severity);
  CHECK(fact_of<std::string>(program.findings[0], "pattern") == known.pattern);
  CHECK(fact_of<std::string>(program.findings[0], "loss_op") == known.loss);
}

TEST_CASE("loss-double-softmax tells of logits in nll_loss what to call", "[check]") {
  Program program("loss-double-softmax");
  train(program, {"aten::nll_loss_forward"}, 2);
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.what == "its output enters nll_loss, which expects log-probabilities");
  REQUIRE(finding.fixes.size() == 1);
  CHECK(finding.fixes[0].text == "cross_entropy in place of nll_loss, or log_softmax before it");
}

TEST_CASE("loss-double-softmax leaves open what was called after a log_softmax", "[check]") {
  Program program("loss-double-softmax");
  train(program, {"aten::_log_softmax", "aten::_log_softmax", "aten::nll_loss_forward"}, 2);
  CHECK(program.findings.at(0).what ==
        "its output enters log_softmax, of cross_entropy or before nll_loss, which applies "
        "log-softmax again");
}

TEST_CASE("loss-double-softmax stays silent", "[check]") {
  Program program("loss-double-softmax");
  SECTION("on softmax as attention") {
    train(program, {"aten::_softmax", "aten::bmm", "aten::_log_softmax", "aten::nll_loss_forward"},
          4);
  }
  SECTION("on logits") { train(program, {"aten::_log_softmax", "aten::nll_loss_forward"}, 4); }
  SECTION("on the logarithm of probabilities") {
    train(program, {"aten::_softmax", "aten::log", "aten::nll_loss_forward"}, 4);
  }
  SECTION("on probabilities where they belong") {
    train(program, {"aten::sigmoid", "aten::binary_cross_entropy"}, 4);
  }
  SECTION("on a relu before log_softmax that is no loss") {
    train(program, {"aten::relu", "aten::_log_softmax"}, 4);
  }
  SECTION("on what a product made of log-probabilities") {
    program.attach(1, kNet);
    program.optimizer(1, {1});
    for (int i = 0; i < 4; ++i) {
      program.send_now(LossInputEvent{.input = 32, .minimum = -4, .maximum = -0.1});
      run(program, {"aten::matmul", "aten::nll_loss_forward"});
      program.backward({1});
      program.step(1);
    }
  }
  SECTION("with grad mode off") {
    train(program, {"aten::_softmax", "aten::_log_softmax"}, 4, /*grad_mode=*/false);
  }
  SECTION("on a first view") { train(program, {"aten::view", "aten::_log_softmax"}, 4); }
  SECTION("on soft targets") {
    program.attach(1, kNet);
    program.optimizer(1, {1});
    for (int i = 0; i < 4; ++i) {
      program.op({.name = "aten::addmm", .inputs = {30, 1}, .outputs = {31}});
      program.op({.name = "aten::_softmax", .inputs = {31}, .outputs = {32}});
      program.op({.name = "aten::_log_softmax", .inputs = {31}, .outputs = {33}});
      program.op({.name = "aten::mul", .inputs = {33, 32}, .outputs = {34}});
      program.op(
          {.name = "aten::binary_cross_entropy_with_logits", .inputs = {31, 32}, .outputs = {35}});
      program.backward({1});
      program.step(1);
    }
  }
  SECTION("after one step and lost events") {
    const std::vector<std::string> ops = {"aten::_softmax", "aten::_log_softmax"};
    train(program, ops, 1);
    program.drop_events();
    train(program, ops, 1);
  }
  SECTION("after two backwards of one step") {
    program.attach(1, kNet);
    program.optimizer(1, {1});
    run(program, {"aten::_softmax", "aten::_log_softmax"});
    program.backward({1});
    program.backward({1});
  }
  CHECK(program.findings.empty());
}

}  // namespace ddpscope::test::loss_double_softmax_test
