#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::loss_pairs_test {
namespace {
using Shape = std::vector<std::int64_t>;
const std::vector<Registered> kNet = {{.id = 1, .path = "fc.weight"}};
constexpr TensorId kPrediction = 31, kReward = 9, kBest = 32, kWorth = 33, kLoss = 40;

void begin(Program& program) {
  program.attach(1, kNet);
  program.optimizer(1, {1});
}

void plain(Program& program, TensorId id, const Shape& shape) {
  program.send_now(TensorEvent{.tensor = {.id = id, .shape = shape, .is_leaf = true}});
}

void predict(Program& program, const Shape& shape) {
  program.op({.name = "aten::addmm", .inputs = {30, 1}, .outputs = {kPrediction}, .shape = shape});
}

void end_step(Program& program) {
  program.roots = {kLoss};
  program.backward({1});
  program.step(1);
}

/// A target of what was paid and of what is expected, and a loss of it.
void learn_worth(Program& program, const Shape& reward, const Shape& prediction,
                 const Shape& worth) {
  begin(program);
  plain(program, kReward, reward);
  for (int i = 0; i < 2; ++i) {
    predict(program, prediction);
    program.op({.name = "aten::mul",
                .inputs = {30},
                .outputs = {kBest},
                .grad_mode = false,
                .requires_grad = false,
                .shape = {8, 1}});
    program.op({.name = "aten::add",
                .inputs = {kReward, kBest},
                .outputs = {34},
                .grad_mode = false,
                .requires_grad = false,
                .shape = worth});
    program.op({.name = "aten::detach",
                .inputs = {34},
                .outputs = {kWorth},
                .requires_grad = false,
                .shape = worth});
    program.op({.name = "aten::mse_loss", .inputs = {kPrediction, kWorth}, .outputs = {kLoss}});
    end_step(program);
  }
}

/// The mean of what two tensors give, which `between` may change first.
void learn_product(Program& program, const Shape& factor, const std::string& between = "",
                   const Shape& result = {}) {
  begin(program);
  for (int i = 0; i < 2; ++i) {
    predict(program, {8});
    program.op({.name = "aten::sub",
                .inputs = {30},
                .outputs = {kBest},
                .requires_grad = false,
                .shape = factor});
    program.op(
        {.name = "aten::mul", .inputs = {kPrediction, kBest}, .outputs = {35}, .shape = {8, 8}});
    program.op({.name = "aten::neg", .inputs = {35}, .outputs = {36}, .shape = {8, 8}});
    TensorId last = 36;
    if (!between.empty()) {
      last = 37;
      program.op({.name = between, .inputs = {36, 35}, .outputs = {last}, .shape = result});
    }
    program.op({.name = "aten::mean", .inputs = {last}, .outputs = {kLoss}, .shape = {1}});
    end_step(program);
  }
}
}  // namespace

TEST_CASE("loss-broadcast tells where a target was made of all pairs", "[check]") {
  Program program("loss-broadcast");
  const Shape prediction = GENERATE(Shape{8}, Shape{8, 1});
  learn_worth(program, {8}, prediction, {8, 8});
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.op == "aten::mse_loss");
  CHECK(cause_of(finding) == "broadcast_before");
  CHECK(finding.what.ends_with(" and target [8, 8] broadcast to [8, 8]; 64 terms instead of 8"));
  CHECK(finding.why.starts_with("aten::add made all pairs of [8] and [8, 1]: "));
  CHECK(finding.fixes[0].text == "bring [8] and [8, 1] to one shape before aten::add");
}

TEST_CASE("loss-broadcast stays silent on targets of one shape", "[check]") {
  Program program("loss-broadcast");
  learn_worth(program, {8, 1}, {8, 1}, {8, 1});
  CHECK(program.findings.empty());
}

TEST_CASE("loss-broadcast notes a target whose rows were made on purpose", "[check]") {
  Program program("loss-broadcast");
  learn_worth(program, {8, 8}, {8, 1}, {8, 8});
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == Severity::kNote);
}

TEST_CASE("loss-broadcast tells of factors that meet in all pairs", "[check]") {
  Program program("loss-broadcast");
  SECTION("alone") { learn_product(program, {8, 1}); }
  SECTION("in the smaller of two losses") { learn_product(program, {8, 1}, "aten::min", {8, 8}); }
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.what == "factors [8] and [8, 1] broadcast to [8, 8]; 64 terms instead of 8");
  CHECK(finding.fixes[0].text == "squeeze(1) of [8, 1]");
  CHECK(cause_of(finding) == "both_broadcast");
}

TEST_CASE("loss-broadcast stays silent on products", "[check]") {
  Program program("loss-broadcast");
  SECTION("of equal shapes") { learn_product(program, {8}); }
  SECTION("with one number for each row") { learn_product(program, {8, 8}); }
  SECTION("of two lists") { learn_product(program, {5, 1}); }
  SECTION("of which each row is summed up") { learn_product(program, {8, 1}, "aten::sum", {8}); }
  SECTION("with a parameter") {
    begin(program);
    for (int i = 0; i < 2; ++i) {
      predict(program, {1});
      program.op({.name = "aten::mul", .inputs = {kPrediction, 1}, .outputs = {35}});
      program.op({.name = "aten::mean", .inputs = {35}, .outputs = {kLoss}, .shape = {1}});
      end_step(program);
    }
  }
  CHECK(program.findings.empty());
}

TEST_CASE("loss-broadcast names the model whose output enters the loss", "[check]") {
  Program program("loss-broadcast");
  begin(program);
  program.attach(2, {{.id = 2, .path = "out.weight"}});
  program.optimizer(2, {2});
  plain(program, kReward, {8});
  for (int i = 0; i < 2; ++i) {
    program.op(
        {.name = "aten::addmm", .inputs = {30, 2}, .outputs = {kPrediction}, .shape = {8, 1}});
    program.op({.name = "aten::mse_loss", .inputs = {kPrediction, kReward}, .outputs = {kLoss}});
    program.roots = {kLoss};
    program.backward({2});
    program.step(2);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].model == "net2");
}

}  // namespace ddpscope::test::loss_pairs_test
