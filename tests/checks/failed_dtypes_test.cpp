// What helps where an operator threw because of the dtype, or the values, of what it was given.
#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::failed_dtypes_test {

TEST_CASE("module-operator-failed gives the cast or the values that help", "[check]") {
  Program program("module-operator-failed");
  const auto [message, fix] = GENERATE(table<std::string, std::string>(
      {{"mat1 and mat2 must have the same dtype, but got Byte and Float", "of the bytes"},
       {"Input type (unsigned char) and bias type (float) should be the same", "of the bytes"},
       {"Input type (double) and bias type (float) should be the same", "dtype of the weights"},
       {"Found dtype Long but expected Float", "of the target"},
       {"result type Float can't be cast to the desired output type Long", "of the target"},
       {"index 4 is out of bounds for dimension 1 with size 4", "labels and indices from 0"},
       {"index out of range in self", "labels and indices from 0"},
       {"the input matrix contained non-finite values.", "look for what made NaN"},
       {"all elements of target should be between 0 and 1", "targets of 0 to 1"}}));
  program.send_now(OperatorFailedEvent{.op = "aten::addmm", .message = message});
  program.exit();
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].fixes.at(0).text.find(fix) != std::string::npos);
}

}  // namespace ddpscope::test::failed_dtypes_test
