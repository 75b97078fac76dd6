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
  loop.clear_and_look(16);
  CHECK(loop.program.findings.empty());
  loop.clear_and_look(40);
  loop.program.exit();
  REQUIRE(loop.program.findings.size() == 1);
  const Finding& finding = loop.program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(fact_of<std::string>(finding, "cause") == "never_stepped");
  CHECK(finding.step == 1);
  CHECK(finding.why.find("SGD holds 2 parameters with gradients") != std::string::npos);
}

TEST_CASE("optim-update-size tells at the end what never stepped", "[check]") {
  Loop loop;
  SECTION("in few steps") { loop.clear_and_look(9); }
  SECTION("where nothing cleared the gradients") {
    for (int i = 0; i < 60; ++i) loop.program.backward({1, 2});
  }
  CHECK(loop.program.findings.empty());
  loop.program.exit();
  REQUIRE(loop.program.findings.size() == 1);
  CHECK(cause_of(loop.program.findings[0]) == "never_stepped");
}

TEST_CASE("optim-update-size does not ask for a step", "[check]") {
  Loop loop;
  SECTION("of optimizers of which one has stepped") {
    loop.program.backward({1, 2});
    loop.program.step(1);
    loop.clear_and_look(64);
  }
  SECTION("where gradients are not finite") {
    for (int i = 0; i < 4; ++i) {
      loop.clear_and_look(12);
      loop.program.send_now(NonfiniteGradientEvent{.tensor = 1});
    }
  }
  SECTION("where another rank sends the parameters") {
    for (int i = 0; i < 4; ++i) {
      loop.clear_and_look(12);
      CollectiveEvent sent{.kind = CollectiveKind::kBroadcast};
      sent.tensors.push_back(1);
      loop.program.send_now(std::move(sent));
    }
  }
  SECTION("where gradients are added up") {
    for (int i = 0; i < 64; ++i) loop.program.backward({1, 2});
    loop.program.zero_grad(1);
    loop.program.step(1);
  }
  SECTION("where the program takes the gradients, as of each sample") {
    loop.program.last_gradients = GradientFate::kTaken;
    loop.clear_and_look(64);
  }
  SECTION("where nobody saw what becomes of them") {
    loop.program.last_gradients = GradientFate::kUnknown;
    loop.clear_and_look(64);
  }
  SECTION("within the first step of a line search, or of an optimizer of the program's own") {
    loop.program.optimizer_type = GENERATE("torch::optim::LBFGS", "");
    loop.program.members(1, {{1, 2}});
    loop.clear_and_look(64);
  }
  SECTION("where few backwards came before the end") { loop.clear_and_look(7); }
  SECTION("where the program writes the parameters") {
    for (int i = 0; i < 20; ++i) {
      loop.program.backward({1, 2});
      loop.program.write({1, 2});
    }
  }
  SECTION("where steps may have been lost") {
    loop.program.drop_events();
    loop.clear_and_look(64);
  }
  loop.program.exit();
  CHECK(loop.program.findings.empty());
}

}  // namespace ddpscope::test::unstepped_optimizers_test
