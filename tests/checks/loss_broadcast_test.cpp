#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::loss_broadcast_test {
namespace {
using Shape = std::vector<std::int64_t>;
const std::vector<Registered> kNet = {{.id = 1, .path = "fc.weight"}};
constexpr TensorId kPrediction = 31, kTarget = 9, kLoss = 40;

void plain(Program& program, TensorId id, const Shape& shape, const Shape& unexpanded = {}) {
  program.send_now(
      TensorEvent{.tensor = {.id = id, .shape = shape, .is_leaf = true, .unexpanded = unexpanded}});
}

void predict(Program& program, const Shape& shape) {
  program.op({.name = "aten::addmm", .inputs = {30, 1}, .outputs = {kPrediction}, .shape = shape});
}

void end_step(Program& program) {
  program.roots = {kLoss};
  program.backward({1});
  program.step(1);
}

/// `op` of a prediction and a target, twice; what `after` adds stands before the root.
void train(Program& program, const std::string& op, const Shape& prediction, const Shape& target,
           int steps = 2) {
  program.attach(1, kNet);
  program.optimizer(1, {1});
  plain(program, kTarget, target);
  for (int i = 0; i < steps; ++i) {
    predict(program, prediction);
    program.op({.name = op, .inputs = {kPrediction, kTarget}, .outputs = {35}, .module = 1000});
    program.op({.name = "aten::mean", .inputs = {35}, .outputs = {kLoss}});
    end_step(program);
  }
}
}  // namespace

TEST_CASE("loss-broadcast tells the shapes and the number of terms", "[check]") {
  Program program("loss-broadcast");
  train(program, "aten::mse_loss", {8, 1}, {8}, 1);
  CHECK(program.findings.empty());
  train(program, "aten::mse_loss", {8, 1}, {8}, 1);
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.op == "aten::mse_loss");
  CHECK(finding.model == "net");
  CHECK(finding.what ==
        "prediction [8, 1] and target [8] broadcast to [8, 8]; 64 terms instead of 8");
  CHECK(finding.why.starts_with("the target lacks dimension 1; "));
  CHECK(finding.fixes[0].text == "target.unsqueeze(1) or prediction.squeeze(1)");
  CHECK(finding.first_step == 1);
  CHECK(cause_of(finding) == "both_broadcast");
  CHECK(fact_of<std::string>(finding, "shape_a") == "[8, 1]");
  CHECK(fact_of<std::string>(finding, "shape_b") == "[8]");
  CHECK(fact_of<std::string>(finding, "shape_out") == "[8, 8]");
  CHECK(fact_of<std::int64_t>(finding, "terms_count") == 64);
  CHECK(fact_of<std::int64_t>(finding, "expected_terms_count") == 8);
}

TEST_CASE("loss-broadcast knows each loss and the plain difference", "[check]") {
  Program program("loss-broadcast");
  const std::string op =
      GENERATE("aten::mse_loss", "aten::l1_loss", "aten::smooth_l1_loss", "aten::huber_loss",
               "aten::binary_cross_entropy", "aten::binary_cross_entropy_with_logits", "aten::sub");
  const bool is_swapped = GENERATE(false, true);
  train(program, op, is_swapped ? Shape{8} : Shape{8, 1}, is_swapped ? Shape{8, 1} : Shape{8});
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].fixes[0].text ==
        (is_swapped ? "target.squeeze(1) or prediction.unsqueeze(1)"
                    : "target.unsqueeze(1) or prediction.squeeze(1)"));
}

TEST_CASE("loss-broadcast names the target also where it is the first argument", "[check]") {
  Program program("loss-broadcast");
  program.attach(1, kNet);
  program.optimizer(1, {1});
  plain(program, kTarget, {8});
  for (int i = 0; i < 2; ++i) {
    predict(program, {8, 1});
    program.op({.name = "aten::sub", .inputs = {kTarget, kPrediction}, .outputs = {kLoss}});
    end_step(program);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].what.starts_with("prediction [8, 1] and target [8] "));
  CHECK(fact_of<std::string>(program.findings[0], "shape_a") == "[8]");
}

TEST_CASE("loss-broadcast looks behind what the functional losses expand", "[check]") {
  Program program("loss-broadcast");
  program.attach(1, kNet);
  program.optimizer(1, {1});
  plain(program, kTarget, {8, 8}, {1, 8});
  for (int i = 0; i < 2; ++i) {
    predict(program, {8, 1});
    program.op({.name = "aten::expand",
                .inputs = {kPrediction},
                .outputs = {32},
                .shape = {8, 8},
                .unexpanded = {8, 1}});
    program.op({.name = "aten::mse_loss", .inputs = {32, kTarget}, .outputs = {kLoss}});
    end_step(program);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].what.starts_with("prediction [8, 1] and target [8] "));
}

TEST_CASE("loss-broadcast notes a target that is repeated", "[check]") {
  Program program("loss-broadcast");
  const bool is_equal = GENERATE(false, true);
  train(program, GENERATE("aten::mse_loss", "aten::sub"), is_equal ? Shape{1, 4} : Shape{8, 4},
        {4});
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == Severity::kNote);
  CHECK(cause_of(program.findings[0]) == "one_sided");
  CHECK(program.findings[0].why ==
        (is_equal ? "they differ by dimensions of one element; no term is "
                    "repeated"
                  : "the smaller one is repeated for every row of the other"));
}

TEST_CASE("loss-broadcast stays silent on losses", "[check]") {
  Program program("loss-broadcast");
  SECTION("of equal shapes") { train(program, "aten::mse_loss", {8, 1}, {8, 1}, 4); }
  SECTION("against a scalar") { train(program, "aten::mse_loss", {8, 1}, {}, 4); }
  SECTION("against one element") { train(program, "aten::sub", {8, 4}, {1}, 4); }
  SECTION("of one prediction against many targets") {
    train(program, "aten::mse_loss", {1}, {8}, 4);
  }
  SECTION("of other operators") { train(program, "aten::add", {8, 1}, {8}, 4); }
  SECTION("of differences between two lists") { train(program, "aten::sub", {8, 1}, {5}, 4); }
  SECTION("with weights") {
    program.attach(1, kNet);
    program.optimizer(1, {1});
    plain(program, kTarget, {8, 4});
    plain(program, 10, {4});
    for (int i = 0; i < 4; ++i) {
      predict(program, {8, 4});
      program.op({.name = "aten::binary_cross_entropy",
                  .inputs = {kPrediction, kTarget, 10},
                  .outputs = {kLoss}});
      end_step(program);
    }
  }
  SECTION("on shapes that no event told") {
    program.attach(1, kNet);
    program.optimizer(1, {1});
    for (int i = 0; i < 4; ++i) {
      predict(program, {8, 1});
      program.op({.name = "aten::sub", .inputs = {kPrediction, 77}, .outputs = {kLoss}});
      end_step(program);
    }
  }
  CHECK(program.findings.empty());
}

TEST_CASE("loss-broadcast stays silent on distances between pairs", "[check]") {
  Program program("loss-broadcast");
  program.attach(1, kNet);
  program.optimizer(1, {1});
  plain(program, kTarget, {8});
  const std::string pick = GENERATE("", "aten::min", "aten::argmin", "aten::max");
  for (int i = 0; i < 4; ++i) {
    predict(program, pick.empty() ? Shape{8} : Shape{8, 1});
    TensorId left = kPrediction;
    if (pick.empty()) {
      left = 32;
      program.op(
          {.name = "aten::unsqueeze", .inputs = {kPrediction}, .outputs = {left}, .shape = {8, 1}});
    }
    program.op({.name = "aten::sub", .inputs = {left, kTarget}, .outputs = {33}, .shape = {8, 8}});
    program.op({.name = "aten::square", .inputs = {33}, .outputs = {34}});
    if (!pick.empty()) program.op({.name = pick, .inputs = {34}, .outputs = {36}});
    program.op({.name = "aten::mean", .inputs = {34, 36}, .outputs = {kLoss}});
    end_step(program);
  }
  CHECK(program.findings.empty());
}

TEST_CASE("loss-broadcast stays silent on a loss of which both sides were unsqueezed", "[check]") {
  Program program("loss-broadcast");
  program.attach(1, kNet);
  program.optimizer(1, {1});
  const bool both = GENERATE(true, false);
  for (int i = 0; i < 4; ++i) {
    predict(program, {8});
    program.op(
        {.name = "aten::unsqueeze", .inputs = {kPrediction}, .outputs = {32}, .shape = {8, 1}});
    program.op({.name = both ? "aten::unsqueeze" : "aten::neg",
                .inputs = {kPrediction},
                .outputs = {33},
                .shape = {1, 8}});
    program.op({.name = "aten::mse_loss", .inputs = {32, 33}, .outputs = {kLoss}});
    end_step(program);
  }
  CHECK(program.findings.size() == (both ? 0U : 1U));
}

TEST_CASE("loss-broadcast stays silent far from the loss and without a gradient path", "[check]") {
  Program program("loss-broadcast");
  program.attach(1, kNet);
  program.optimizer(1, {1});
  plain(program, kTarget, {8});
  const int distance = GENERATE(0, 7, 8);
  const bool has_path = GENERATE(true, false);
  for (int i = 0; i < 4; ++i) {
    program.op({.name = "aten::addmm",
                .inputs = {30, 1},
                .outputs = {kPrediction},
                .requires_grad = has_path,
                .shape = {8, 1}});
    const auto behind = static_cast<TensorId>(50 + distance);
    program.op({.name = "aten::sub", .inputs = {kPrediction, kTarget}, .outputs = {behind}});
    for (int k = distance; k > 0; --k) {
      program.op({.name = "aten::neg",
                  .inputs = {static_cast<TensorId>(50 + k)},
                  .outputs = {static_cast<TensorId>(49 + k)}});
    }
    program.roots = {50};
    program.backward({1});
    program.step(1);
  }
  CHECK(program.findings.size() == (distance < 8 && has_path ? 1U : 0U));
}

TEST_CASE("loss-broadcast stays silent on an evaluation and starts anew after lost events",
          "[check]") {
  Program program("loss-broadcast");
  SECTION("evaluation") {
    program.attach(1, kNet);
    program.optimizer(1, {1});
    plain(program, kTarget, {8});
    for (int i = 0; i < 4; ++i) {
      predict(program, {8, 1});
      program.op({.name = "aten::mse_loss",
                  .inputs = {kPrediction, kTarget},
                  .outputs = {kLoss},
                  .grad_mode = false});
      end_step(program);
    }
  }
  SECTION("lost events") {
    train(program, "aten::mse_loss", {8, 1}, {8}, 1);
    program.drop_events();
    train(program, "aten::mse_loss", {8, 1}, {8}, 1);
  }
  SECTION("a second backward of one step") {
    program.attach(1, kNet);
    program.optimizer(1, {1});
    plain(program, kTarget, {8});
    predict(program, {8, 1});
    program.op({.name = "aten::mse_loss", .inputs = {kPrediction, kTarget}, .outputs = {kLoss}});
    program.roots = {kLoss};
    program.backward({1});
    program.backward({1});
  }
  CHECK(program.findings.empty());
}

}  // namespace ddpscope::test::loss_broadcast_test
