#include "tests/support/catch.h"
#include "tests/tools/run_tool.h"

namespace ddpscope::test::print_test {
namespace {

TEST_CASE("what cannot be written to stdout is told, and returns 3", "[tools]") {
  const auto run = run_shell("ddpscope list > /dev/full");
  CHECK(run.code == 3);
  CHECK(run.says("ddpscope: error: stdout: No space left on device\n"));
}

TEST_CASE("a code of its own stands where stdout cannot be written", "[tools]") {
  CHECK(run_shell("ddpscope validate /nowhere > /dev/full").code == 3);
  CHECK(run_shell("ddpscope run --out $(mktemp -d)/o -- sh -c 'exit 7' > /dev/full").code == 7);
}

TEST_CASE("a reader who has seen enough is no error", "[tools]") {
  const auto run = run_shell("trap '' PIPE; { sleep 0.2; ddpscope list; echo $? >&2; } | true");
  CHECK(run.text == "0\n");
}

}  // namespace
}  // namespace ddpscope::test::print_test
