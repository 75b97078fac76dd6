// Members whose gradients come of the loss of another optimizer alone.
#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::never_own_gradients_test {
namespace {
constexpr int kLong = 40;

/// A world model with a dynamics head, 1, and a reward head, 2; and an actor, 3.
struct World {
  World() {
    program.attach(1, {{.id = 1, .path = "dynamics.weight"}, {.id = 2, .path = "reward.weight"}});
    program.attach(2, {{.id = 3, .path = "weight"}});
    program.optimizer(1, {1, 2});
    program.optimizer(2, {3});
  }
  void step_of_world(const std::vector<TensorId>& reached) {
    program.zero_grad(1);
    program.backward(reached);
    program.step(1);
  }
  void step_of_actor(const std::vector<TensorId>& reached) {
    program.zero_grad(2);
    program.backward(reached);
    program.step(2);
  }
  Findings cleared() const {
    Findings found;
    for (const Finding& finding : program.findings) {
      if (cause_of(finding) == "cleared_before_step") found.push_back(finding);
    }
    return found;
  }
  Program program{"grad-missing"};
};
}  // namespace

TEST_CASE("A head that only the loss of another optimizer reaches is never trained", "[check]") {
  World world;
  for (int i = 0; i < kLong; ++i) {
    world.step_of_actor({2, 3});
    world.step_of_world({1});
  }
  const Findings found = world.cleared();
  REQUIRE(found.size() == 1);
  CHECK(found[0].severity == Severity::kWarning);
  CHECK(found[0].module_path == "reward");
  CHECK(found[0].what ==
        "1 parameter (4 elements) stepped without a gradient in 20 steps: cleared_before_step");
}

TEST_CASE("Gradients of the loss of another optimizer are no fault", "[check]") {
  World world;
  SECTION("where the own loss gives them too") {
    for (int i = 0; i < kLong; ++i) {
      world.step_of_actor({2, 3});
      world.step_of_world({1, 2});
    }
  }
  SECTION("where it does now and then, as a penalty that is added in each 16th step") {
    for (int i = 0; i < 4 * kLong; ++i) {
      world.step_of_actor({2, 3});
      world.step_of_world(i % 16 == 0 ? std::vector<TensorId>{1, 2} : std::vector<TensorId>{1});
    }
  }
  SECTION("where another optimizer holds them as well") {
    world.program.members(2, {{2, 3}});
    for (int i = 0; i < kLong; ++i) {
      world.step_of_actor({2, 3});
      world.step_of_world({1});
    }
  }
  SECTION("where they come now and then") {
    for (int i = 0; i < kLong; ++i) {
      world.step_of_actor(i % 3 == 0 ? std::vector<TensorId>{3} : std::vector<TensorId>{2, 3});
      world.step_of_world({1});
    }
  }
  CHECK(world.cleared().empty());
}

}  // namespace ddpscope::test::never_own_gradients_test
