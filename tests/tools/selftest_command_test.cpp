#include "tests/support/catch.h"
#include "tests/support/temporary_dir.h"
#include "tests/tools/run_tool.h"

namespace ddpscope::test::selftest_command_test {
namespace {
TEST_CASE("selftest refuses wrong usage before it starts anything", "[tools]") {
  const auto none = run_shell("ddpscope selftest");
  CHECK(none.code == 2);
  CHECK(none.says("no program is named: ddpscope selftest [options] -- PROG ARGS"));
  CHECK(run_shell("ddpscope selftest --level off -- echo started").code == 2);
  CHECK(run_shell("ddpscope selftest --after 0 -- echo started").code == 2);
  CHECK(run_shell("ddpscope selftest --seconds x -- echo started").code == 2);
  const auto fault = run_shell("ddpscope selftest --fault nonsense -- echo started");
  CHECK(fault.code == 2);
  CHECK(fault.says("--fault: nonsense is none; ddpscope selftest --list names them"));
}

TEST_CASE("selftest refuses settings with which nothing is caught", "[tools]") {
  const auto off = run_shell("DDPSCOPE=off '" DDPSCOPE_TOOL "' selftest -- echo started");
  CHECK(off.code == 2);
  CHECK(off.says("DDPSCOPE says off"));
  const auto wrong = run_shell("DDPSCOPE=chekcs=x '" DDPSCOPE_TOOL "' selftest -- echo started");
  CHECK(wrong.code == 2);
  CHECK(wrong.says("did you mean \"checks\"?"));
  const auto gone =
      run_shell("DDPSCOPE=suppressions=/gone.txt '" DDPSCOPE_TOOL "' selftest -- echo started");
  CHECK(gone.code == 2);
  CHECK(gone.says("suppressions=\"/gone.txt\" is not a readable file"));
}

TEST_CASE("selftest lists its faults with their checks", "[tools]") {
  const auto list = run_shell("ddpscope selftest --list");
  CHECK(list.code == 0);
  CHECK(list.says("log-of-zero                numeric-nonfinite-forward   "));
  const auto json = run_shell("ddpscope selftest --list --json");
  CHECK(json.code == 0);
  CHECK(json.says("\"between_ranks\": true"));
}

// Without LibTorch in the build there is nothing to preload, which is told first.
bool has_preload() { return !run_shell("ddpscope selftest -- true").says("was not found near"); }

TEST_CASE("selftest says why a program cannot be tried", "[tools]") {
  if (!has_preload()) return;
  const auto plain = run_shell("ddpscope selftest -- true");
  CHECK(plain.code == 4);
  CHECK(plain.says("true wrote no record"));
  const auto failing = run_shell("ddpscope selftest -- sh -c 'echo no data >&2; exit 9'");
  CHECK(failing.code == 4);
  CHECK(failing.says("sh fails without a fault: exit code 9: no data"));
  const auto killed = run_shell("ddpscope selftest -- sh -c 'kill -SEGV $$'");
  CHECK(killed.code == 4);
  CHECK(killed.says("killed by SIGSEGV (signal 11)"));
  const auto absent = run_shell("ddpscope selftest -- /nonexistent/program");
  CHECK(absent.code == 2);
  CHECK(absent.says("cannot start /nonexistent/program: No such file or directory"));
}

TEST_CASE("selftest leaves no scratch folder and no process behind", "[tools]") {
  if (!has_preload()) return;
  const TemporaryDir dir;
  run_shell("TMPDIR=" + dir.path() + " '" DDPSCOPE_TOOL "' selftest -- sh -c 'echo $$ > " +
            (dir / "pid") + "; exec sleep 60' & sleep 1; kill -TERM $!; wait $!");
  const auto left = run_shell("ls " + dir.path() + "; kill -0 $(cat " + (dir / "pid") +
                              ") 2> /dev/null && echo alive");
  CHECK(left.text == "pid\n");
}
}  // namespace
}  // namespace ddpscope::test::selftest_command_test
