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

TEST_CASE("optim-stale-gradient forgets cycles before one in which all was cleared", "[check]") {
  Program program("optim-stale-gradient");
  for (int i = 0; i < 3; ++i) {
    play(program, /*clears_each=*/false, 2);
    play(program, /*clears_each=*/true, 2);
  }
  CHECK(program.findings.empty());
}

}  // namespace ddpscope::test::stale_critic_test
