#include "tools/launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "records/file_descriptor.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_dir.h"
#include "tools/launch_settings.h"

using namespace ddpscope;

namespace {
struct Launched {
  LaunchResult result;
  double seconds = 0;
};

Launched launch_shell(const std::string& script, int ranks, const std::string& dir = "") {
  const FileDescriptor folder(dir.empty() ? -1 : ::open(dir.c_str(), O_RDONLY | O_DIRECTORY));
  const LaunchPlan plan{
      .argv = {"sh", "-c", script},
      .environments = rank_environments({ProcessEnvironment(environ), ranks, 1}),
      .log_dir = folder.get(),
      .times = {.settle_ms = 100, .terminate_ms = 300, .interrupted_ms = 300, .output_ms = 200}};
  const auto begin = std::chrono::steady_clock::now();
  auto result = launch(plan);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return {std::move(result), took.count()};
}
}  // namespace

TEST_CASE("the first rank that fails is named with code and last error line", "[tools]") {
  const auto launched = launch_shell("[ $RANK = 1 ] && { echo why >&2; exit 7; }; sleep 30", 3);
  REQUIRE(launched.result.first_failure == 1);
  const auto& end = launched.result.ranks[1];
  CHECK(end.exit_code() == 7);
  CHECK(end.last_error_line == "why");
  CHECK(describe_failure(1, end).starts_with("rank 1 failed first: exit code 7 after 0."));
  CHECK(launched.result.ranks[0].signal == SIGTERM);
  CHECK(launched.result.ranks[0].stopped);
  CHECK_FALSE(end.stopped);
  CHECK(end.ended_unix_ns < launched.result.ranks[0].ended_unix_ns);
  CHECK(launched.seconds < 10);
}

TEST_CASE("a signal that killed a rank is named", "[tools]") {
  const auto launched = launch_shell("kill -KILL $$", 1);
  REQUIRE(launched.result.first_failure == 0);
  CHECK(launched.result.ranks[0].exit_code() == 137);
  CHECK(describe_failure(0, launched.result.ranks[0]).find("killed by SIGKILL (signal 9)") !=
        std::string::npos);
}

TEST_CASE("ranks that ignore SIGTERM are killed after another failed", "[tools]") {
  const auto launched = launch_shell(
      "[ $RANK = 0 ] && { sleep 0.2; exit 1; }; trap '' TERM; while :; do sleep 1; done", 2);
  CHECK(launched.result.first_failure == 0);
  CHECK(launched.result.ranks[1].signal == SIGKILL);
  CHECK(launched.seconds < 10);
}

TEST_CASE("a process that keeps the pipe of an ended rank is not awaited", "[tools]") {
  const auto launched = launch_shell("sleep 20 & exit 0", 1);
  CHECK(!launched.result.first_failure);
  CHECK(launched.seconds < 10);
}

TEST_CASE("a program that cannot be started is reported with its errno", "[tools]") {
  LaunchPlan plan{.argv = {"/nonexistent/program"}, .environments = {{}, {}}};
  CHECK(launch(plan).start_error == ENOENT);
  plan.argv = {"/"};
  CHECK(launch(plan).start_error == EACCES);
}

TEST_CASE("the log holds the raw bytes of a rank and belongs to the user alone", "[tools]") {
  const TemporaryDir dir;
  launch_shell("printf 'a\\000b\\rc'", 2, dir.path());
  const FileDescriptor log(::open((dir / "rank-1.log").c_str(), O_RDONLY));
  char bytes[16] = {};
  REQUIRE(::read(log.get(), bytes, sizeof(bytes)) == 5);
  CHECK(std::string(bytes, 5) == std::string("a\0b\rc", 5));
  CHECK((std::filesystem::status(dir / "rank-1.log").permissions() & std::filesystem::perms::all) ==
        std::filesystem::perms(0600));
}
