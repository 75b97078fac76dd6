// What is left of a process that was killed, and what a full disk does.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <functional>

#include "tests/exchange/ring_files.h"
#include "tests/support/catch.h"

namespace ddpscope {
namespace {

/// The status of a child that runs `task`.
int in_child(const std::function<int()>& task) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(task());
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST_CASE("a killed process leaves every call that it issued", "[ring]") {
  const TemporaryDir dir;
  const int status = in_child([&] {
    RingWriter writer;
    if (!open_ring(writer, dir.path()).empty()) return 1;
    const NameId owner = writer.name("fc.weight.grad");
    for (std::uint64_t i = 0; i < 7; ++i) writer.ended(writer.issued(call_number(i)), 5, {});
    CallRecord last = call_number(7);
    last.owner = owner;
    writer.issued(last);
    ::raise(SIGKILL);
    return 1;
  });
  REQUIRE(WIFSIGNALED(status));
  RingReader reader;
  REQUIRE(reader.open(dir / "rank-0.ring") == "");
  REQUIRE(reader.call_count() == 8);
  for (std::uint64_t i = 0; i < 8; ++i) CHECK(reader.call(i).value().seq == i + 1);
  CHECK(reader.name(reader.call(7).value().owner) == "fc.weight.grad");
}

TEST_CASE("a disk without room is told when the ring is made, and nothing is left", "[ring]") {
  const TemporaryDir dir;
  const bool asks_first = GENERATE(true, false);
  const int status = in_child([&] {
    // Past this limit a write is a signal, which ends a program that did not ask for it.
    const struct rlimit limit = {.rlim_cur = 8192, .rlim_max = 8192};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    if (!asks_first) ::signal(SIGXFSZ, SIG_IGN);
    RingWriter writer;
    const std::string error = open_ring(writer, dir.path());
    writer.issued(call_number(1));
    return error.find("rank-0.ring: File too large for ") == 0 ? 0 : 1;
  });
  CHECK(status == 0);
  CHECK_FALSE(std::filesystem::exists(dir / "rank-0.ring"));
}

}  // namespace
}  // namespace ddpscope
