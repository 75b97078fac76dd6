// Networks that stay as they are: what an optimizer trains is their input.
#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::fixed_models_test {
namespace {
constexpr TensorId kImage = 1;
constexpr TensorId kWeight = 11;
constexpr TensorId kLast = 12;

/// A model with two layers, and an image that an optimizer trains: its values enter the first
/// layer. Nothing uses what the second returns.
struct Fit {
  explicit Fit(const std::string& check) : program(check) {
    program.attach(1, {{.id = kImage, .path = "image", .shape = {3, 8, 8}}});
    program.attach(2, {{.id = kWeight, .path = "0.weight", .shape = {32, 64}},
                       {.id = kLast, .path = "1.weight", .shape = {32, 32}}});
    program.optimizer(1, {kImage});
  }
  void train(const std::vector<TensorId>& reached = {kImage, kWeight}, bool steps_both = false) {
    for (int i = 0; i < 5; ++i) {
      program.zero_grad(1);
      if (has_data) program.op({.name = "aten::add", .inputs = {kImage, 40}, .outputs = {20}});
      if (!has_data) program.op({.name = "aten::flatten", .inputs = {kImage}, .outputs = {20}});
      program.op({.name = "aten::div", .inputs = {20, 41}, .outputs = {21}});
      program.op({.name = "aten::mm", .inputs = {21, kWeight}, .outputs = {22}});
      program.op({.name = "aten::mm", .inputs = {22, kLast}, .outputs = {23}});
      program.backward(reached);
      if (steps_both) program.step(2);
      program.step(1);
    }
  }
  /// A batch, and the deviation of three channels.
  void introduce_data() {
    program.send(std::make_unique<TensorEvent>(
        TensorEvent{program.now(), {.id = 40, .shape = {192}, .elements = 192, .floating = true}}));
    program.send(std::make_unique<TensorEvent>(
        TensorEvent{program.now(), {.id = 41, .shape = {3}, .elements = 3, .floating = true}}));
  }
  Program program;
  bool has_data = false;
};
}  // namespace

TEST_CASE("optim-missing-parameter is a note on a network behind what is trained", "[check]") {
  Fit fit("optim-missing-parameter");
  fit.introduce_data();
  fit.has_data = GENERATE(false, true);
  fit.train();
  REQUIRE(fit.program.findings.size() == 1);
  const Finding& finding = fit.program.findings[0];
  CHECK(finding.severity == (fit.has_data ? Severity::kError : Severity::kNote));
  if (fit.has_data) return;
  CHECK(finding.why.ends_with(
      "their model reads what an optimizer trains as its input, and none holds any of it"));
  CHECK(finding.fixes[0].text.starts_with("requires_grad_(false)"));
  CHECK(finding.fixes[1].text.starts_with("optimizer.add_param_group"));
}

TEST_CASE("optim-missing-parameter is an error on a model of which an optimizer holds a part",
          "[check]") {
  Fit fit("optim-missing-parameter");
  fit.introduce_data();
  fit.program.optimizer(2, {kLast});
  fit.train({kImage, kWeight, kLast}, /*steps_both=*/true);
  REQUIRE(fit.program.findings.size() == 1);
  CHECK(fit.program.findings[0].severity == Severity::kError);
}

TEST_CASE("grad-missing is a note on a model that nobody trains", "[check]") {
  Fit fit("grad-missing");
  const bool is_held = GENERATE(false, true);
  if (is_held) fit.program.optimizer(2, {kWeight, kLast});
  fit.train({kImage, kWeight}, is_held);
  REQUIRE(fit.program.findings.size() == 1);
  CHECK(cause_of(fit.program.findings[0]) == "result_dropped");
  CHECK(fit.program.findings[0].severity == (is_held ? Severity::kWarning : Severity::kNote));
}

}  // namespace ddpscope::test::fixed_models_test
