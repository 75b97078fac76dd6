#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::autograd_ready_twice_test {
namespace {
struct Pass {
  Program program;

  explicit Pass(std::int64_t world_size = 2)
      : program("autograd-ready-twice", nullptr, world_size) {
    program.attach(1, {{.id = 1, .path = "stem.weight"}, {.id = 2, .path = "block4.weight"}});
  }
  void begin() { program.send_now(BackwardEvent{}); }
  void nest() { program.send_now(NestedBackwardEvent{.at = {}, .node = "RecomputeBackward"}); }
  void gradient(TensorId id, int depth = 1, bool hooked = true) {
    program.send(GradientEvent{
        .at = program.now(), .tensor = id, .defined = true, .hooked = hooked, .depth = depth});
  }
  void end() { program.send(BackwardEndEvent{.at = program.now()}); }
};
}  // namespace

TEST_CASE("autograd-ready-twice reports two gradients of a nested backward", "[check]") {
  Pass pass;
  pass.begin();
  pass.gradient(1);
  pass.nest();
  pass.gradient(2, 2);
  pass.nest();
  pass.gradient(2, 2);
  CHECK(pass.program.findings.empty());
  pass.end();
  REQUIRE(pass.program.findings.size() == 1);
  const Finding& finding = pass.program.findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.module_path == "block4");
  CHECK(finding.subject == "weight");
  CHECK(finding.op == "AccumulateGrad");
  CHECK(finding.what == "received 2 gradients in one backward");
  CHECK(finding.why ==
        "a nested backward was started by RecomputeBackward; hooks that average gradients expect "
        "one for each parameter");
  CHECK(cause_of(finding) == "nested_backward");
  CHECK(fact_of<std::string>(finding, "parameter") == "block4.weight");
  CHECK(fact_of<std::string>(finding, "launching_node") == "RecomputeBackward");
  CHECK(fact_of<std::int64_t>(finding, "fired_count") == 2);
  CHECK(fact_of<std::int64_t>(finding, "depth_count") == 2);
}

TEST_CASE("autograd-ready-twice is a note for a process that averages with no other") {
  Pass pass(/*world_size=*/1);
  pass.begin();
  pass.gradient(2);
  pass.nest();
  pass.gradient(2, 2);
  pass.end();
  REQUIRE(pass.program.findings.size() == 1);
  CHECK(pass.program.findings[0].severity == Severity::kNote);
}

TEST_CASE("autograd-ready-twice takes LibTorch's word", "[check]") {
  Pass pass;
  pass.begin();
  pass.gradient(2, 1, /*hooked=*/false);
  pass.gradient(2, 1, /*hooked=*/false);
  pass.program.send_now(
      ErrorEvent{.at = {}, .message = "Parameter at index 7 has been marked as ready twice."});
  REQUIRE(pass.program.findings.size() == 1);
  CHECK(cause_of(pass.program.findings[0]) == "second_use");
  pass.end();
  CHECK(pass.program.findings.size() == 1);
}

TEST_CASE("autograd-ready-twice stays silent", "[check]") {
  Pass pass;
  SECTION("on micro-batches, which are separate backwards") {
    for (int i = 0; i < 3; ++i) {
      pass.begin();
      pass.gradient(2);
      pass.end();
    }
  }
  SECTION("on tied weights, which fire once") {
    pass.begin();
    pass.gradient(1);
    pass.gradient(2);
    pass.end();
  }
  SECTION("on a program without gradient hooks") {
    pass.begin();
    pass.nest();
    pass.gradient(2, 2, /*hooked=*/false);
    pass.gradient(2, 2, /*hooked=*/false);
    pass.end();
  }
  SECTION("on a gradient that is not defined") {
    pass.begin();
    pass.gradient(2);
    pass.program.gradient_undefined(2);
    pass.end();
  }
  SECTION("on two backwards whose nodes one thread of the engine runs") {
    pass.begin();
    pass.gradient(2);
    pass.gradient(2);
    pass.end();
  }
  SECTION("on two threads that train the same parameters") {
    pass.begin();
    pass.gradient(2);
    Stamp other = pass.program.now();
    other.thread = 2;
    pass.program.send(GradientEvent{.at = other, .tensor = 2, .hooked = true});
    pass.end();
  }
  SECTION("on other errors") {
    pass.begin();
    pass.gradient(2, 1, /*hooked=*/false);
    pass.gradient(2, 1, /*hooked=*/false);
    pass.program.send_now(ErrorEvent{.at = {}, .message = "out of memory"});
    pass.end();
  }
  CHECK(pass.program.findings.empty());
}

}  // namespace ddpscope::test::autograd_ready_twice_test
