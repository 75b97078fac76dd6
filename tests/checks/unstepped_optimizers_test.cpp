// Loops that clear gradients and never step.
#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::unstepped_optimizers_test {
namespace {
struct Loop {
  Program program{"optim-update-size"};

  Loop() {
    program.attach(1, {{.id = 1, .path = "body.weight"}, {.id = 2, .path = "body.bias"}});
    program.optimizer(1, {1, 2});
  }
  void clear_and_look(int times) {
    for (int i = 0; i < times; ++i) {
      program.zero_grad(1);
      program.zero_grad(1);
      program.backward({1, 2});
    }
  }
};
}  // namespace

TEST_CASE("optim-update-size tells gradients that no step ever uses, once", "[check]") {
  Loop loop;
  loop.clear_and_look(32);
  CHECK(loop.program.findings.empty());
  loop.clear_and_look(40);
  REQUIRE(loop.program.findings.size() == 1);
  const Finding& finding = loop.program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(fact_of<std::string>(finding, "cause") == "never_stepped");
  CHECK(finding.why.find("holds 2 parameters with gradients") != std::string::npos);
}

TEST_CASE("optim-update-size does not ask for a step", "[check]") {
  Loop loop;
  SECTION("of optimizers of which one has stepped") {
    loop.program.backward({1, 2});
    loop.program.step(1);
    loop.clear_and_look(64);
  }
  SECTION("where gradients are not finite") {
    for (int i = 0; i < 2; ++i) {
      loop.program.send_now(NonfiniteGradientEvent{.tensor = 1});
      loop.clear_and_look(32);
    }
  }
  SECTION("where another rank sends the parameters") {
    for (int i = 0; i < 2; ++i) {
      loop.clear_and_look(32);
      CollectiveEvent sent{.kind = CollectiveKind::kBroadcast};
      sent.tensors.push_back(1);
      loop.program.send_now(std::move(sent));
    }
  }
  SECTION("where gradients are added up") {
    for (int i = 0; i < 64; ++i) loop.program.backward({1, 2});
    loop.program.zero_grad(1);
  }
  CHECK(loop.program.findings.empty());
}

}  // namespace ddpscope::test::unstepped_optimizers_test
