#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::undefined_arguments_test {
namespace {
constexpr ModuleId kFirst = 1001;
constexpr ModuleId kSecond = 1002;
const char kText[] =
    "Expected a proper Tensor but got None (or an undefined Tensor in C++) for argument #0 'self'";

/// A layer reads its weight in two steps; in the second, as the argument says, or another tensor.
Program two_steps(TensorId second_weight) {
  Program program("module-operator-failed");
  program.attach(1, {{.id = 1, .path = "a.weight"}, {.id = 2, .path = "b.weight"}});
  for (const TensorId weight : {TensorId{2}, second_weight}) {
    program.op({.name = "aten::mm", .inputs = {30, 1}, .outputs = {31}, .module = kFirst});
    program.op({.name = "aten::mm", .inputs = {31, weight}, .outputs = {32}, .module = kSecond});
    program.backward({1, 2});
    // Read in the step that begins here, but by no module.
    if (weight == 2) program.op({.name = "aten::sub", .inputs = {2, 50}, .outputs = {40}});
  }
  program.send_now(OperatorFailedEvent{.op = "aten::mul", .message = kText});
  program.exit();
  return program;
}
}  // namespace

TEST_CASE("An undefined argument is named, and the members that were assigned", "[check]") {
  const bool is_assigned = GENERATE(true, false);
  const Program program = two_steps(is_assigned ? 40 : 2);
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.what == "threw: argument #0 'self' is an undefined tensor");
  CHECK(finding.why ==
        std::string("the program passed an undefined tensor, as grad() of what no backward "
                    "filled: ") +
            kText +
            (is_assigned ? "; the modules that ran in this step did not read their registered "
                           "b.weight, as where these members were assigned other tensors"
                         : ""));
  CHECK(finding.fixes[0].text.starts_with("update values in place: torch::NoGradGuard guard;"));
}

TEST_CASE("An operator that threw without inputs has no list of them", "[check]") {
  Program program("module-operator-failed");
  program.attach(1, {{.id = 1, .path = "a.weight"}});
  program.send_now(OperatorFailedEvent{.op = "aten::cat", .message = "some text"});
  program.exit();
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].what == "threw");
}

}  // namespace ddpscope::test::undefined_arguments_test
