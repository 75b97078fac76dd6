#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::optim_stale_gradient_test {
namespace {
const std::vector<Registered> kNet = {{.id = 1, .path = "a.weight"}, {.id = 2, .path = "b.weight"}};

/// Two optimizers, of parameter 1 (discriminator) and of parameter 2 (generator).
void play_gan(Program& program, int critic_steps, bool zero_first) {
  program.attach(1, kNet);
  program.optimizer(1, {1});
  program.optimizer(2, {2});
  for (int round = 0; round < 6; ++round) {
    for (int i = 0; i < critic_steps; ++i) {
      if (zero_first) program.zero_grad(1);
      program.backward({1, 2});
      if (!zero_first) program.clear({1});
      if (!zero_first) program.backward({1});
      program.step(1);
    }
    program.zero_grad(2);
    program.backward({1, 2});
    program.step(2);
  }
}
}  // namespace

TEST_CASE("optim-stale-gradient reports a loop without zero_grad in step 4", "[check]") {
  Program program("optim-stale-gradient");
  program.attach(1, kNet);
  program.optimizer(1, {1, 2});
  for (int i = 0; i < 4; ++i) {
    CHECK(program.findings.empty());
    program.backward({1, 2});
    program.step(1);
  }
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(cause_of(finding) == "never_zeroed");
  CHECK(finding.step == 4);
  CHECK(finding.module_path.empty());
  CHECK(finding.what ==
        "gradients of earlier steps are still in all 2 parameters (8 elements; never_zeroed)");
  CHECK(finding.why ==
        "4 accumulations since they were last cleared, 4 steps of SGD, no reset in between");
  CHECK(fact_of<std::int64_t>(finding, "parameters_count") == 2);
  CHECK(fact_of<std::int64_t>(finding, "elements") == 8);
  CHECK(fact_of<std::vector<FactScalar>>(finding, "parameters").size() == 2);
}

TEST_CASE("optim-stale-gradient reports updates of the program's own without zero_grad",
          "[check]") {
  Program program("optim-stale-gradient");
  program.attach(1, kNet);
  for (int i = 0; i < 4; ++i) {
    CHECK(program.findings.empty());
    program.backward({1, 2});
    program.write({1, 2});
  }
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(cause_of(finding) == "never_zeroed");
  CHECK(finding.step == 4);
  CHECK(finding.what ==
        "gradients of earlier steps are still in all 2 parameters (8 elements; never_zeroed)");
  CHECK(finding.why ==
        "4 accumulations since they were last cleared, 3 updates by the program's own code, no "
        "reset in between");
  CHECK(finding.fixes[0].text == "zero_grad() of the model before each first backward");
}

TEST_CASE(
    "optim-stale-gradient reports an optimizer of the program's own, whose steps are not seen",
    "[check]") {
  Program program("optim-stale-gradient");
  program.attach(1, kNet);
  program.optimizer(1, {1, 2});
  for (int i = 0; i < 4; ++i) {
    program.backward({1, 2});
    program.write({1, 2});
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(cause_of(program.findings[0]) == "never_zeroed");
}

TEST_CASE("optim-stale-gradient warns of what the program's own code does not clear", "[check]") {
  Program program("optim-stale-gradient");
  program.attach(1, kNet);
  for (int i = 0; i < 4; ++i) {
    program.backward({1, 2});
    program.write({1, 2});
    program.clear({1});
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == Severity::kWarning);
  CHECK(cause_of(program.findings[0]) == "outside_optimizer");
  CHECK(program.findings[0].fixes[1].text == "or clear these too: b.weight");
}

TEST_CASE("optim-stale-gradient is silent on correct updates of the program's own", "[check]") {
  Program program("optim-stale-gradient");
  program.attach(1, kNet);
  SECTION("of micro-batches, cleared after the update") {
    for (int i = 0; i < 24; ++i) {
      program.backward({1, 2});
      if (i % 4 < 3) continue;
      program.write({1, 2});
      program.clear({1, 2});
    }
  }
  SECTION("that are long in coming") {
    for (int i = 0; i < 100; ++i) program.backward({1, 2});
    program.write({1, 2});
    program.backward({1, 2});
  }
  SECTION("with gradients that are zeroed in place") {
    for (int i = 0; i < 10; ++i) {
      program.backward({1, 2});
      program.write({1, 2});
      program.clear({1, 2}, GradientBefore::kReset);
    }
  }
  SECTION("of inputs, which belong to no model") {
    for (int i = 0; i < 10; ++i) {
      program.backward({77});
      program.write({77});
    }
  }
  SECTION("before an optimizer takes over") {
    program.backward({1, 2});
    program.write({1, 2});
    program.optimizer(1, {1, 2});
    for (int i = 0; i < 10; ++i) {
      program.zero_grad(1);
      program.backward({1, 2});
      program.write({1, 2});
      program.step(1);
    }
  }
  CHECK(program.findings.empty());
}

TEST_CASE("optim-stale-gradient reports the optimizer of two that is not zeroed", "[check]") {
  Program program("optim-stale-gradient");
  program.attach(1, kNet);
  program.optimizer(1, {1});
  program.optimizer(2, {2});
  for (int i = 0; i < 6; ++i) {
    program.zero_grad(1);
    program.backward({1, 2});
    program.step(1);
    program.step(2);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].module_path == "b");
  CHECK(program.findings[0].severity == Severity::kWarning);
  CHECK(cause_of(program.findings[0]) == "outside_optimizer");
}

TEST_CASE("optim-stale-gradient reports two optimizers of which none is zeroed", "[check]") {
  Program program("optim-stale-gradient");
  program.attach(1, kNet);
  program.optimizer(1, {1});
  program.optimizer(2, {2});
  for (int i = 0; i < 5; ++i) {
    program.backward({1, 2});
    program.step(1);
    program.step(2);
  }
  REQUIRE(program.findings.size() == 2);
  for (const Finding& finding : program.findings) {
    CHECK(finding.severity == Severity::kError);
    CHECK(cause_of(finding) == "never_zeroed");
  }
}

TEST_CASE("optim-stale-gradient warns of members that zero_grad does not reach", "[check]") {
  Program program("optim-stale-gradient");
  program.attach(1, kNet);
  program.optimizer(1, {1, 2});
  for (int i = 0; i < 5; ++i) {
    program.clear({1});
    program.backward({1, 2});
    program.step(1);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == Severity::kWarning);
  CHECK(cause_of(program.findings[0]) == "outside_optimizer");
  CHECK(program.findings[0].fixes[1].text == "or clear these too: b.weight");
}

TEST_CASE("optim-stale-gradient warns of members of another model that zero_grad does not reach",
          "[check]") {
  Program program("optim-stale-gradient");
  program.attach(1, {{.id = 1, .path = "a.weight"}});
  program.attach(2, {{.id = 2, .path = "b.weight"}});
  program.optimizer(1, {1, 2});
  for (int i = 0; i < 5; ++i) {
    program.clear({1});
    program.backward({1, 2});
    program.step(1);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == Severity::kWarning);
  CHECK(cause_of(program.findings[0]) == "outside_optimizer");
}

TEST_CASE("optim-stale-gradient notes more accumulations than the period", "[check]") {
  Program program("optim-stale-gradient");
  program.attach(1, kNet);
  program.optimizer(1, {1, 2});
  for (const int micro_batches : {2, 2, 2, 3}) {
    for (int i = 0; i < micro_batches; ++i) program.backward({1, 2});
    program.step(1);
    program.zero_grad(1);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == Severity::kNote);
  CHECK(cause_of(program.findings[0]) == "period_exceeded");
}

TEST_CASE("optim-stale-gradient stays silent", "[check]") {
  Program program("optim-stale-gradient");
  SECTION("on accumulation with a stable period") {
    program.attach(1, kNet);
    program.optimizer(1, {1, 2});
    for (int i = 0; i < 24; ++i) {
      program.backward({1, 2});
      if (i % 4 == 3) program.step(1);
      if (i % 4 == 3) program.zero_grad(1);
    }
  }
  SECTION("on foreign gradients that are cleared before their owner's backward") {
    play_gan(program, GENERATE(1, 5), GENERATE(true, false));
  }
  SECTION("in the first 3 cycles") {
    program.attach(1, kNet);
    program.optimizer(1, {1, 2});
    for (int i = 0; i < 3; ++i) {
      program.backward({1, 2});
      program.step(1);
    }
  }
  SECTION("on optimizers that call a closure") {
    program.attach(1, kNet);
    program.optimizer(1, {1, 2});
    for (int i = 0; i < 6; ++i) {
      program.backward({1, 2});
      program.step(1, /*with_closure=*/true);
    }
  }
  SECTION("on gradients that were zeroed or replaced by other means") {
    program.attach(1, kNet);
    program.optimizer(1, {1, 2});
    const auto left = GENERATE(GradientBefore::kReset, GradientBefore::kZero);
    for (int i = 0; i < 6; ++i) {
      program.backward({1, 2});
      program.step(1);
      program.clear({1, 2}, left);
    }
  }
  SECTION("on gradients that the program writes itself after it cleared others") {
    program.attach(1, kNet);
    program.optimizer(1, {1, 2});
    for (int i = 0; i < 6; ++i) {
      program.zero_grad(1);
      program.clear({1, 2}, GradientBefore::kKept);
      program.step(1);
      program.backward({1, 2});
    }
  }
  SECTION("where lost events hide what happened") {
    program.attach(1, kNet);
    program.optimizer(1, {1, 2});
    for (int i = 0; i < 6; ++i) {
      program.backward({1, 2});
      program.step(1);
      if (i == 2) program.drop_events();
      if (i == 2) program.clear({1, 2});
    }
    program.clear({1, 2});
  }
  CHECK(program.findings.empty());
}

}  // namespace ddpscope::test::optim_stale_gradient_test
