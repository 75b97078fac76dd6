#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::optim_empty_test {

TEST_CASE("optim-empty reports an optimizer whose first step changes nothing", "[check]") {
  Program program("optim-empty");
  SECTION("because it holds no parameter") {
    program.attach(1, {});
    program.leaf(5, {10, 20});
    program.optimizer(1, {});
    program.backward({5});
    program.step(1);
    REQUIRE(program.findings.size() == 1);
    CHECK(program.findings[0].what ==
          "steps with 0 parameters; the loss reaches 1 trainable tensor (200 elements)");
    CHECK(fact_of<std::int64_t>(program.findings[0], "reached_elements") == 200);
  }
  SECTION("because all members are frozen") {
    program.attach(1, {{.id = 5, .path = "fc.weight", .requires_grad = false}});
    program.create(1);
    program.members(1, {{5}}, /*frozen=*/{5});
    program.step(1);
    REQUIRE(program.findings.size() == 1);
    CHECK(program.findings[0].what ==
          "steps with 0 trainable parameters of 1 member; no backward came since the last step");
  }
  CHECK(program.findings[0].severity == Severity::kError);
  CHECK(program.findings[0].subject == "SGD");
  CHECK(program.findings[0].step == 1);
  program.step(1);
  CHECK(program.findings.size() == 1);
}

TEST_CASE("optim-empty notes an empty group among filled ones", "[check]") {
  Program program("optim-empty");
  program.attach(1, {{.id = 5, .path = "fc.weight"}});
  program.create(1);
  program.members(1, {{5}, {}});
  program.step(1);
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == Severity::kNote);
}

TEST_CASE("optim-empty explains why registered parameters are in no optimizer", "[check]") {
  Program program("optim-*");
  program.attach(1, {{.id = 5, .path = "fc.weight"}});
  program.optimizer(1, {});
  const bool another = GENERATE(true, false);
  if (another) program.optimizer(2, {});
  for (int i = 0; i < 3; ++i) {
    program.backward({5});
    program.step(1);
  }
  const Findings empty = program.with_id("optim-empty");
  const Findings missing = program.with_id("optim-missing-parameter");
  REQUIRE(!empty.empty());
  REQUIRE(empty[0].fixes.size() == 2);
  CHECK(empty[0].fixes[0].text.starts_with("build the optimizer with model->parameters() itself"));
  REQUIRE(missing.size() == 1);
  CHECK(missing[0].caused_by == (another ? "" : empty[0].fingerprint));
}

TEST_CASE("optim-empty knows members that their class may not have registered", "[check]") {
  Program program("optim-empty");
  program.attach(1, {{.id = 5, .path = "0.weight"}});
  program.attach(2, {{.id = 6, .path = "0.weight"}});
  program.optimizer(1, {});
  program.backward({5, 6});
  program.step(1);
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].fixes[0].text.starts_with(
      "if these are members of a class of the program: register_module(name, member)"));
}

TEST_CASE("optim-empty is folded under module-unregistered", "[check]") {
  Program program("optim-empty,module-unregistered");
  program.attach(1, {});
  program.leaf(5, {10, 20});
  program.optimizer(1, {});
  for (int i = 0; i < 3; ++i) {
    program.backward({5});
    program.step(1);
  }
  REQUIRE(program.with_id("module-unregistered").size() == 1);
  const Findings empty = program.with_id("optim-empty");
  REQUIRE(empty.size() == 2);
  CHECK(empty[0].caused_by.empty());
  CHECK(empty[1].caused_by == program.with_id("module-unregistered")[0].fingerprint);
  CHECK(empty[1].causal_role == CausalRole::kCascade);
}

TEST_CASE("optim-empty stays silent", "[check]") {
  Program program("optim-empty");
  program.attach(1, {{.id = 5, .path = "fc.weight"}, {.id = 6, .path = "fc.bias"}});
  SECTION("on an optimizer that was filled before its first step") {
    program.create(1);
    program.members(1, {{}});
    program.members(1, {{5}});
    program.step(1);
  }
  SECTION("on an optimizer that never steps") {
    program.optimizer(1, {});
    program.backward({5});
  }
  SECTION("on frozen members beside trainable ones") {
    program.create(1);
    program.members(1, {{5, 6}}, /*frozen=*/{6});
    program.step(1);
  }
  SECTION("on members that are frozen now and had a gradient") {
    program.create(1);
    program.members(1, {{5}}, /*frozen=*/{5});
    program.backward({5});
    program.step(1);
  }
  CHECK(program.findings.empty());
}

}  // namespace ddpscope::test::optim_empty_test
