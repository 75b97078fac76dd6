// optim-stale-gradient where one optimizer applies the gradients of two losses.
#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::foreign_gradients_test {
namespace {
/// Discriminator 1 and generator 2, or critic 2 and actor 1, or heads 1 and 3 on trunk 2.
struct TwoLosses {
  TwoLosses() {
    program.attach(1, {{.id = 1, .path = "a.weight"}, {.id = 3, .path = "c.weight"}});
    program.attach(2, {{.id = 2, .path = "b.weight"}, {.id = 4, .path = "b.bias"}});
    program.optimizer(1, {1});
    program.optimizer(2, {2, 4});
    program.optimizer(3, {3});
  }
  void zero_all() {
    for (const OptimizerId optimizer : {1, 2, 3}) program.zero_grad(optimizer);
  }
  void train(OptimizerId optimizer, const std::vector<TensorId>& leaves) {
    program.backward(leaves);
    program.step(optimizer);
  }
  Program program{"optim-stale-gradient"};
};
}  // namespace

TEST_CASE("optim-stale-gradient warns of a generator that learns from the discriminator's loss",
          "[check]") {
  TwoLosses gan;
  const int critic_steps = GENERATE(1, 5);
  const bool by_zero_grad = GENERATE(true, false);
  for (int i = 0; i < 4; ++i) {
    gan.program.zero_grad(2);
    for (int k = 0; k < critic_steps; ++k) {
      by_zero_grad ? gan.program.zero_grad(1) : gan.program.clear({1}, GradientBefore::kReset);
      gan.train(1, {1, 4, 2});
    }
    CHECK(gan.program.findings.size() == (i < 3 ? 0 : 1));
    gan.train(2, {1, 4, 2});
  }
  REQUIRE(gan.program.findings.size() == 1);
  const Finding& finding = gan.program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(cause_of(finding) == "other_loss");
  CHECK(finding.what ==
        "gradients of the backward before a step of SGD with net.a.weight are still in all 2 "
        "parameters (8 elements; other_loss)");
  CHECK(finding.why ==
        "nothing cleared them before the next backward, and SGD with net2.b.weight stepped with "
        "both, three times; what that backward left for SGD with net.a.weight was cleared "
        "unused");
  CHECK(finding.fixes.at(0).text ==
        "zero_grad() of SGD with net2.b.weight after the step of SGD with net.a.weight");
  CHECK(finding.fixes.at(1).text ==
        "or detach() what the loss of SGD with net.a.weight takes from them");
}

TEST_CASE("optim-stale-gradient notes a critic that learns from the actor's loss", "[check]") {
  TwoLosses losses;
  for (int i = 0; i < 4; ++i) {
    losses.zero_all();
    losses.train(1, {4, 2, 1});
    losses.train(2, {4, 2});
  }
  REQUIRE(losses.program.findings.size() == 1);
  CHECK(losses.program.findings[0].severity == Severity::kNote);
  CHECK(cause_of(losses.program.findings[0]) == "other_loss");
  CHECK(losses.program.findings[0].step == 6);
}

TEST_CASE("optim-stale-gradient warns of gradients that two optimizers apply in turn", "[check]") {
  Program program("optim-stale-gradient");
  program.attach(1, {{.id = 1, .path = "a.weight"},
                     {.id = 2, .path = "trunk.weight"},
                     {.id = 3, .path = "c.weight"}});
  program.optimizer(1, {1, 2});
  program.optimizer(2, {2, 3});
  for (int i = 0; i < 4; ++i) {
    program.zero_grad(1);
    program.zero_grad(2);
    program.backward({1, 2});
    program.step(1);
    program.backward({3, 2});
    program.step(2);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == Severity::kWarning);
  CHECK(cause_of(program.findings[0]) == "other_loss");
  CHECK(program.findings[0].module_path == "trunk");
}

TEST_CASE("optim-stale-gradient stays silent on losses of several optimizers", "[check]") {
  TwoLosses losses;
  SECTION("that are all run before the first step") {
    for (int i = 0; i < 12; ++i) {
      losses.zero_all();
      losses.program.backward({1, 2, 4});
      losses.program.backward({3, 2, 4});
      for (const OptimizerId optimizer : {1, 2, 3}) losses.program.step(optimizer);
    }
  }
  SECTION("cleared before their owner's backward") {
    for (int i = 0; i < 12; ++i) {
      losses.program.zero_grad(1);
      losses.train(1, {1, 4, 2});
      losses.program.zero_grad(2);
      losses.train(2, {1, 4, 2});
    }
  }
  SECTION("in turn, where each head steps at once and the trunk at the end") {
    for (int i = 0; i < 12; ++i) {
      losses.zero_all();
      losses.train(1, {1, 4, 2});
      losses.train(3, {3, 4, 2});
      losses.program.step(2);
    }
  }
  SECTION("that train an encoder with its decoder and against a discriminator") {
    for (int i = 0; i < 12; ++i) {
      losses.zero_all();
      losses.train(3, {3, 4, 2});
      losses.train(1, {1});
      losses.train(2, {1, 4, 2});
    }
  }
  SECTION("of which one accumulates over several steps of the other, and uses them") {
    const bool slow_first = GENERATE(true, false);
    for (int i = 0; i < 40; ++i) {
      losses.program.zero_grad(1);
      losses.program.backward({4, 2, 1});
      const bool is_slow = i % 4 == 3;
      if (is_slow && slow_first) losses.program.step(2);
      losses.program.step(1);
      if (is_slow && !slow_first) losses.program.step(2);
      if (is_slow) losses.program.zero_grad(2);
    }
  }
  SECTION("that step alternately, each with two micro-batches") {
    for (int i = 0; i < 40; ++i) {
      const OptimizerId optimizer = i % 2 + 1;
      losses.train(optimizer, {4, 2, 1});
      losses.program.zero_grad(optimizer);
    }
  }
  SECTION("whose optimizer calls a closure") {
    for (int i = 0; i < 12; ++i) {
      losses.zero_all();
      losses.train(1, {1, 4, 2});
      losses.program.backward({1, 4, 2});
      losses.program.step(2, /*with_closure=*/true);
    }
  }
  SECTION("where hooks rest in between") {
    for (int i = 0; i < 12; ++i) {
      losses.zero_all();
      losses.train(1, {1, 4, 2});
      losses.program.rest(1, 4);
      losses.train(2, {1, 4, 2});
      losses.program.rest(1, 4);
    }
  }
  CHECK(losses.program.findings.empty());
}

}  // namespace ddpscope::test::foreign_gradients_test
