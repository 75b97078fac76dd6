#include <algorithm>

#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::zero_rates_test {
namespace {
struct Loop {
  Program program{"optim-update-size"};
  std::vector<ParameterUpdate> updates = {{.tensor = 1, .unchanged = true, .gradient_norm = 1},
                                          {.tensor = 2, .unchanged = true, .gradient_norm = 1}};

  Loop() {
    program.attach(1, {{.id = 1, .path = "body.weight", .shape = {4, 2}},
                       {.id = 2, .path = "embed.weight", .shape = {8, 4}}});
    program.optimizer(1, {1, 2});
  }
  void step() {
    program.backward({1, 2});
    if (++steps_ > 100 && steps_ % 16 == 1) {
      program.send_now(ParameterUpdatesEvent{.optimizer = 1, .members = updates});
    }
    program.step(1);
  }
  void steps(int count) {
    for (int i = 0; i < count; ++i) step();
  }

 private:
  int steps_ = 0;
};
}  // namespace

TEST_CASE("optim-update-size tells a learning rate of 0 from the start once", "[check]") {
  Loop loop;
  std::vector<std::vector<double>> rates = {{0.0, 0.0}};  // of the steps; the last goes on
  bool is_told = false;
  SECTION("of all groups") { is_told = true; }
  SECTION("but not one that rises") { rates = {{0, 0}, {0, 0}, {0.1, 0.1}}; }
  SECTION("but not one that comes back to 0") { rates = {{0.1, 0.1}, {0, 0}}; }
  SECTION("but not one of a group") { rates = {{0.0, 0.1}}; }
  SECTION("but not where another optimizer trains") {
    loop.program.optimizer(2, {3});
    loop.program.group_options = {{.learning_rate = 0.1}};
    loop.program.step(2);
  }
  for (std::size_t i = 0; i < 40; ++i) {
    loop.program.group_options.clear();
    for (const double rate : rates[std::min(i, rates.size() - 1)]) {
      loop.program.group_options.push_back({.learning_rate = rate});
    }
    loop.step();
    if (i == 14) CHECK(loop.program.findings.empty());
  }
  CHECK(loop.program.findings.size() == (is_told ? 1 : 0));
  if (!is_told) return;
  CHECK(loop.program.findings[0].step == 16);
  CHECK(loop.program.findings[0].what ==
        "step() changed nothing in 16 steps: its learning rate is 0 (no_effect)");
  loop.steps(300);
  CHECK(loop.program.findings.size() == 1);
}

TEST_CASE("optim-update-size tells at the end a learning rate that fell to 0", "[check]") {
  Loop loop;
  int at_zero = 64;
  double of_another = 0;
  SECTION("for the last steps") {}
  SECTION("but not for few of them") { at_zero = 63; }
  SECTION("but not where another optimizer trains") { of_another = 0.1; }
  const bool is_told = at_zero == 64 && of_another == 0;
  loop.program.optimizer(2, {3});
  loop.program.group_options = {{.learning_rate = of_another}};
  loop.program.step(2);
  loop.program.group_options = {{.learning_rate = 0.1}};
  loop.steps(8);
  loop.program.group_options = {{.learning_rate = 0}};
  loop.steps(at_zero);
  bool rises = false;
  SECTION("but not one that rises again") { rises = true; }
  if (rises) loop.program.group_options = {{.learning_rate = 0.1}};
  if (rises) loop.step();
  CHECK(loop.program.findings.empty());
  loop.program.exit();
  REQUIRE(loop.program.findings.size() == (is_told && !rises ? 1 : 0));
  if (!is_told || rises) return;
  CHECK(loop.program.findings[0].severity == Severity::kWarning);
  CHECK(loop.program.findings[0].what ==
        "step() changed nothing in the last 64 steps: its learning rate fell to 0 (no_effect)");
}

TEST_CASE("optim-update-size tells a learning rate below 0 at once, and once", "[check]") {
  Loop loop;
  loop.program.group_options = {{.learning_rate = 0.1}};
  loop.steps(3);
  CHECK(loop.program.findings.empty());
  loop.program.group_options = {{.learning_rate = 0.1}, {.learning_rate = -0.01}};
  loop.steps(20);
  REQUIRE(loop.program.findings.size() == 1);
  const Finding& finding = loop.program.findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.step == 4);
  CHECK(finding.what ==
        "step() goes up the slope of the loss: the learning rate of group 1 is -0.01 "
        "(negative_rate)");
  CHECK(fact_of<double>(finding, "lr") == -0.01);
}

}  // namespace ddpscope::test::zero_rates_test
