#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::module_shared_twice_test {
namespace {
const std::vector<Registered> kTied = {{.id = 1, .path = "a.weight"},
                                       {.id = 2, .path = "a.bias"},
                                       {.id = 1, .path = "b.weight"},
                                       {.id = 2, .path = "b.bias"}};

void train(Program& program, OptimizerId optimizer) {
  program.backward({1, 2});
  program.step(optimizer);
}
}  // namespace

TEST_CASE("module-shared-twice reports an optimizer that lists a tensor twice", "[check]") {
  Program program("module-shared-twice");
  program.attach(1, kTied);
  program.optimizer(1, {1, 2, 1, 2});
  CHECK(program.findings.empty());
  train(program, 1);
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.step == 1);
  CHECK(finding.module_path == "b");
  CHECK(finding.subject.empty());
  CHECK(finding.what ==
        "the optimizer holds 2 tensors twice, also as a.bias, a.weight; they are updated twice per "
        "step");
  CHECK(fact_of<std::int64_t>(finding, "times_listed_count") == 2);
  CHECK(fact_of<std::string>(finding, "where") == "optimizer");
  train(program, 1);
  CHECK(program.findings.size() == 1);
}

TEST_CASE("module-shared-twice counts over all groups of one optimizer", "[check]") {
  Program program("module-shared-twice");
  program.attach(1, {{.id = 1, .path = "decoder.weight"}});
  program.create(1);
  program.members(1, {{1}, {1}, {1}});
  train(program, 1);
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].subject == "weight");
  CHECK(program.findings[0].what ==
        "the optimizer holds this tensor 3 times; it is updated 3 times per step");
  CHECK(program.findings[0].why ==
        "several groups of the optimizer hold it: each updates it with its own options");
  CHECK(program.findings[0].fixes.at(0).text == "leave it out of all groups but one");
}

TEST_CASE("module-shared-twice notes a repetition that only the tree has", "[check]") {
  Program program("module-shared-twice");
  program.attach(1, kTied);
  program.backward({1, 2});
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == Severity::kNote);
  CHECK(program.findings[0].what == "the tree lists 2 tensors twice, also as a.bias, a.weight");
}

TEST_CASE("module-shared-twice warns of two tensors over the same memory", "[check]") {
  Program program("module-shared-twice");
  program.leaf_in_storage(1, 2);
  program.leaf_in_storage(2, 2);
  program.optimizer(1, {1, 2});
  train(program, 1);
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == Severity::kWarning);
  CHECK(fact_of<std::string>(program.findings[0], "shares") == "storage");
}

TEST_CASE("module-shared-twice stays silent", "[check]") {
  Program program("module-shared-twice");
  SECTION("on a shared module that the list names once") {
    program.attach(1, kTied);
    program.optimizer(1, {1, 2});
    train(program, 1);
    train(program, 1);
  }
  SECTION("on views that forward uses") {
    program.attach(1, {{.id = 1, .path = "a.weight"}, {.id = 2, .path = "a.bias"}});
    program.optimizer(1, {1, 2});
    program.op({.name = "aten::t", .inputs = {1}, .outputs = {30}});
    train(program, 1);
  }
  SECTION("on one tensor in two optimizers that step alternately") {
    program.attach(1, {{.id = 1, .path = "a.weight"}, {.id = 2, .path = "a.bias"}});
    program.optimizer(1, {1, 2});
    program.optimizer(2, {1});
    train(program, 1);
    train(program, 2);
  }
  SECTION("on views of one flat buffer with different offsets") {
    program.leaf_in_storage(1, 2);
    program.leaf_in_storage(2, 2, 8);
    program.optimizer(1, {1, 2});
    train(program, 1);
  }
  SECTION("on empty tensors") {
    program.leaf_in_storage(1, 0);
    program.leaf_in_storage(2, 0);
    program.optimizer(1, {1, 2});
    train(program, 1);
  }
  SECTION("on an optimizer that never steps") {
    program.attach(1, kTied);
    program.optimizer(1, {1, 2, 1, 2});
    program.backward({1, 2});
  }
  CHECK(program.findings.empty());
}

}  // namespace ddpscope::test::module_shared_twice_test
