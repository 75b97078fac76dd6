// optim-stale-gradient of a critic that steps several times before its generator does.
#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::stale_critic_test {
namespace {
/// Three steps of optimizer 1 before each of optimizer 2; cleared before each of them, or once.
void play(Program& program, bool clears_each, int rounds = 6) {
  program.attach(1, {{.id = 1, .path = "critic.weight"}, {.id = 2, .path = "generator.weight"}});
  program.optimizer(1, {1});
  program.optimizer(2, {2});
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < 3; ++i) {
      if (clears_each || i == 0) program.zero_grad(1);
      program.backward({1});
      program.step(1);
    }
    program.zero_grad(2);
    program.backward({2});
    program.step(2);
  }
}
}  // namespace

TEST_CASE("optim-stale-gradient warns of gradients that serve several steps", "[check]") {
  Program program("optim-stale-gradient");
  play(program, /*clears_each=*/false);
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(cause_of(finding) == "not_each_step");
  CHECK(finding.why ==
        "2 accumulations since they were last cleared, 2 steps of SGD, no reset in between: one "
        "serves several steps");
  CHECK(finding.fixes.at(0).text == "zero_grad() of SGD before the backward of each step");
}

TEST_CASE("optim-stale-gradient tells what is never cleared apart from what sometimes is",
          "[check]") {
  Program program("optim-stale-gradient");
  program.attach(1, {{.id = 1, .path = "critic.weight"},
                     {.id = 2, .path = "generator.weight"},
                     {.id = 3, .path = "critic.embedding"}});
  program.optimizer(1, {1, 3});
  program.optimizer(2, {2});
  for (int round = 0; round < 6; ++round) {
    for (int i = 0; i < 2; ++i) {
      if (i == 0) program.clear({1});
      program.backward({1, 3});
      program.step(1);
    }
    program.zero_grad(2);
    program.backward({2});
    program.step(2);
  }
  std::set<std::string> causes;
  for (const Finding& finding : program.findings) causes.insert(cause_of(finding));
  CHECK(causes == std::set<std::string>{"not_each_step", "outside_optimizer"});
}

TEST_CASE("optim-stale-gradient stays silent on a critic that is cleared before each step",
          "[check]") {
  Program program("optim-stale-gradient");
  play(program, /*clears_each=*/true);
  CHECK(program.findings.empty());
}

TEST_CASE("optim-stale-gradient forgets cycles before two in which all was cleared", "[check]") {
  Program program("optim-stale-gradient");
  for (int i = 0; i < 3; ++i) {
    play(program, /*clears_each=*/false, 1);
    play(program, /*clears_each=*/true, 2);
  }
  CHECK(program.findings.empty());
}

TEST_CASE("optim-stale-gradient names a critic that is cleared once for several steps at first",
          "[check]") {
  Program program("optim-stale-gradient");
  program.attach(1, {{.id = 1, .path = "critic.weight"}, {.id = 2, .path = "generator.weight"}});
  program.optimizer(1, {1});
  program.optimizer(2, {2});
  const bool by_optimizer = GENERATE(true, false);
  for (int round = 0; round < 6; ++round) {
    by_optimizer ? program.zero_grad(1) : program.clear({1});
    for (int i = 0; i < 5; ++i) {
      program.backward({1});
      program.step(1);
    }
    program.zero_grad(2);
    program.backward({2});
    program.step(2);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(cause_of(program.findings[0]) == "not_each_step");
  CHECK(program.findings[0].severity == Severity::kWarning);
}

TEST_CASE("optim-stale-gradient names an optimizer that is cleared once an epoch", "[check]") {
  Program program("optim-stale-gradient");
  program.attach(1, {{.id = 1, .path = "a.weight"}});
  program.optimizer(1, {1});
  for (int i = 0; i < 14; ++i) {
    if (i % 6 == 0) program.zero_grad(1);
    program.backward({1});
    program.step(1);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(cause_of(program.findings[0]) == "not_each_step");
  CHECK(program.findings[0].step == 8);
}

TEST_CASE("optim-stale-gradient waits while another optimizer has not stepped yet", "[check]") {
  Program program("optim-stale-gradient");
  program.attach(1, {{.id = 1, .path = "critic.weight"}, {.id = 2, .path = "generator.weight"}});
  program.optimizer(1, {1});
  program.optimizer(2, {2});
  const auto train = [&program](int steps) {
    for (int i = 0; i < steps; ++i) {
      program.backward({1});
      program.step(1);
    }
  };
  train(31);
  CHECK(program.findings.empty());
  SECTION("up to its 32nd step") { train(1); }
  SECTION("up to the end of the run") { program.exit(); }
  REQUIRE(program.findings.size() == 1);
  CHECK(cause_of(program.findings[0]) == "never_zeroed");
}

TEST_CASE("optim-stale-gradient does not wait for an optimizer that is cleared in its place") {
  Program program("optim-stale-gradient");
  program.attach(1, {{.id = 1, .path = "critic.weight"}, {.id = 2, .path = "generator.weight"}});
  program.optimizer(1, {1});
  program.optimizer(2, {2});
  const bool is_each_step = GENERATE(true, false);
  for (int i = 0; i < 6; ++i) {
    CHECK(program.findings.size() == (i >= 4 && is_each_step ? 1 : 0));
    if (is_each_step || i % 3 == 0) program.zero_grad(2);
    program.backward({1});
    program.step(1);
  }
  if (!is_each_step) return;
  CHECK(program.findings.at(0).why ==
        "4 accumulations since they were last cleared, 4 steps of SGD, no reset in between; "
        "zero_grad() of SGD with net.generator.weight is called instead, which holds none of them");
}

TEST_CASE("optim-stale-gradient takes no gradient for cleared that it did not see", "[check]") {
  Program program("optim-stale-gradient");
  program.attach(1, {{.id = 1, .path = "critic.weight"}, {.id = 2, .path = "generator.weight"}});
  program.optimizer(1, {1});
  program.optimizer(2, {2});
  const auto train = [&program](int rounds) {
    for (int i = 0; i < 3 * rounds; ++i) {
      program.backward({1});
      program.step(1);
      if (i % 3 < 2) continue;
      program.zero_grad(2);
      program.backward({2});
      program.step(2);
    }
  };
  train(4);
  program.rest(1, 9);
  program.clear({1}, GradientBefore::kReset);  // what was added meanwhile
  train(4);
  REQUIRE(!program.findings.empty());
  for (const Finding& finding : program.findings) CHECK(cause_of(finding) == "outside_optimizer");
}

TEST_CASE("optim-stale-gradient knows what was cleared until it no longer was", "[check]") {
  Program program("optim-stale-gradient");
  program.attach(1, {{.id = 1, .path = "a.weight"}});
  program.optimizer(1, {1});
  for (int i = 0; i < 16; ++i) {
    if (i < 8) program.zero_grad(1);
    program.backward({1});
    program.step(1);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(cause_of(program.findings[0]) == "never_zeroed");
}

TEST_CASE("optim-stale-gradient warns where one zero_grad serves two or three steps in turn",
          "[check]") {
  Program program("optim-stale-gradient");
  program.attach(1, {{.id = 1, .path = "trunk.weight"}, {.id = 2, .path = "other.weight"}});
  program.optimizer(1, {1});
  program.optimizer(2, {2});
  const bool has_two_optimizers = GENERATE(false, true);
  const int steps = GENERATE(2, 3);
  for (int i = 0; i < 4 * steps; ++i) {
    if (i % steps == 0) program.zero_grad(1);
    if (i % steps == 0) program.zero_grad(2);
    program.backward({1, 2});
    program.step(1);
    if (has_two_optimizers) program.step(2);
  }
  REQUIRE(program.findings.size() == (has_two_optimizers ? 2 : 1));
  for (const Finding& finding : program.findings) {
    CHECK(cause_of(finding) == "not_each_step");
    CHECK(finding.severity == Severity::kWarning);
    CHECK(finding.step <= (has_two_optimizers ? 12 : 6));
  }
}

TEST_CASE("optim-stale-gradient stays silent on one clearing for several backwards and one step",
          "[check]") {
  Program program("optim-stale-gradient");
  program.attach(1, {{.id = 1, .path = "a.weight"}, {.id = 2, .path = "b.weight"}});
  program.optimizer(1, {1});
  program.optimizer(2, {2});
  SECTION("of two losses before the steps of both optimizers") {
    for (int i = 0; i < 12; ++i) {
      program.zero_grad(1);
      program.zero_grad(2);
      program.backward({1, 2});
      program.backward({1});
      program.step(1);
      program.step(2);
    }
  }
  SECTION("of micro-batches, fewer at the end of an epoch") {
    for (int i = 0; i < 40; ++i) {
      program.backward({1});
      if (i % 10 % 4 != 3 && i % 10 != 9) continue;
      program.step(1);
      program.zero_grad(1);
    }
  }
  SECTION("of each optimizer, before its own backward") {
    for (int i = 0; i < 12; ++i) {
      for (const OptimizerId optimizer : {1, 2}) {
        program.zero_grad(optimizer);
        program.backward({optimizer == 1 ? TensorId{1} : TensorId{2}});
        program.step(optimizer);
      }
    }
  }
  SECTION("of a loop that forgot to clear once") {
    for (int i = 0; i < 12; ++i) {
      if (i != 5) program.zero_grad(1);
      program.backward({1});
      program.step(1);
    }
  }
  CHECK(program.findings.empty());
}

}  // namespace ddpscope::test::stale_critic_test
