#include "tools/scratch_process.h"

#include <signal.h>

#include <fstream>

#include "tests/support/catch.h"
#include "tests/support/temporary_dir.h"
#include "tools/launch_signals.h"

namespace ddpscope {

TEST_CASE("what a program leaves running for its launcher is ended with it", "[tools]") {
  const TemporaryDir dir;
  const std::string told = dir / "pid";
  ProcessEnvironment environment;
  environment.set("PATH", "/usr/bin:/bin");
  const auto run = [&](const std::string& end) {
    const std::string line = "setsid sh -c 'echo $$ > " + told +
                             "; exec sleep 60' & while ! [ -s " + told +
                             " ]; do sleep 0.01; done; " + end;
    return run_scratch({"/bin/sh", "-c", line}, environment, 2000);
  };
  SECTION("after its end") { CHECK(run("exit 3").code == 3); }
  SECTION("when its time is over") { CHECK(run("sleep 60").timed_out); }
  pid_t pid = 0;
  std::ifstream(told) >> pid;
  REQUIRE(pid > 0);
  CHECK(::kill(pid, 0) != 0);
}

TEST_CASE("a signal has the number of its name", "[tools]") {
  CHECK(signal_number(signal_name(SIGSEGV)) == SIGSEGV);
  CHECK(signal_number("") == 0);
}

}  // namespace ddpscope
