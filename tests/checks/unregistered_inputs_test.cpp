// What module-unregistered says of inputs that require grad.
#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::unregistered_inputs_test {

TEST_CASE("module-unregistered is silent on what a network is differentiated with respect to",
          "[check]") {
  Program program("module-unregistered");
  const bool is_of_module = GENERATE(false, true);
  program.attach(1, {{.id = 1, .path = "a.weight"}});
  program.optimizer(1, {1});
  program.leaf(5);
  if (is_of_module) program.loose_module("LinearImpl", {5});
  program.send_now(BackwardEvent{.accumulates = false, .asked = {5}});
  for (int i = 0; i < 4; ++i) {
    program.backward({1, 5});
    program.step(1);
  }
  CHECK(program.findings.size() == (is_of_module ? 1U : 0U));
}

TEST_CASE("module-unregistered says a note where registered layers alone read a tensor, as input",
          "[check]") {
  Program program("module-unregistered");
  program.attach(1, {{.id = 1, .path = "stem.weight"}, {.id = 2, .path = "stem.bias"}});
  program.optimizer(1, {1, 2});
  program.leaf(5, {8, 4});
  program.leaf(6, {4, 4});
  const bool is_weight = GENERATE(false, true);
  const bool other_is_weight = GENERATE(false, true);
  for (int i = 0; i < 4; ++i) {
    program.op({.name = "aten::t", .inputs = {1}, .outputs = {20}});
    if (is_weight) {
      program.op({.name = "aten::addmm", .inputs = {2, 21, 5}, .outputs = {22}});
    } else {
      program.op({.name = "aten::addmm", .inputs = {2, 5, 1}, .outputs = {22}});
    }
    if (other_is_weight) program.op({.name = "aten::mm", .inputs = {22, 6}, .outputs = {23}});
    program.backward(other_is_weight ? std::vector<TensorId>{1, 2, 5, 6}
                                     : std::vector<TensorId>{1, 2, 5});
    program.step(1);
  }
  REQUIRE(program.findings.size() == (other_is_weight && !is_weight ? 2 : 1));
  CHECK(program.findings[0].severity ==
        (is_weight || other_is_weight ? Severity::kError : Severity::kNote));
  CHECK(fact_of<std::int64_t>(program.findings[0], "tensors_count") ==
        (is_weight && other_is_weight ? 2 : 1));
  const Finding& last = program.findings.back();
  CHECK(last.why.ends_with("; registered layers alone read them, as their input") != is_weight);
}

}  // namespace ddpscope::test::unregistered_inputs_test
