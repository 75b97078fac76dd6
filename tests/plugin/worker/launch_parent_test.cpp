// Ranks that each have a wrapper of their own, such as `timeout` or a subshell.
#include "plugin/launch_parent.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "records/file_descriptor.h"
#include "tests/support/catch.h"

namespace ddpscope::test::launch_parent_test {
namespace {
struct Pipe {
  Pipe() {
    std::array<int, 2> ends = {};
    REQUIRE(::pipe(ends.data()) == 0);
    out = FileDescriptor(ends[0]);
    in = FileDescriptor(ends[1]);
  }
  FileDescriptor out, in;
};

/// A process that started a rank of `launch`, which lives as long as this does.
class Wrapper {
 public:
  explicit Wrapper(const std::string& launch) {
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) wrap(launch);
    end_.out = FileDescriptor();
    REQUIRE(::read(answer_.out.get(), &parent_, sizeof parent_) == sizeof parent_);
  }
  ~Wrapper() {
    end_.in = FileDescriptor();
    ::waitpid(pid_, nullptr, 0);
  }
  Wrapper(const Wrapper&) = delete;
  Wrapper& operator=(const Wrapper&) = delete;

  pid_t pid() const { return pid_; }
  pid_t parent_of_rank() const { return parent_; }

 private:
  [[noreturn]] void wrap(const std::string& launch) {
    end_.in = FileDescriptor();
    const pid_t rank = ::fork();
    if (rank == 0) {
      const pid_t parent = launch_parent(launch);
      char end = 0;
      const bool is_written = ::write(answer_.in.get(), &parent, sizeof parent) == sizeof parent;
      ::_exit(is_written ? static_cast<int>(::read(end_.out.get(), &end, 1)) : 1);
    }
    ::waitpid(rank, nullptr, 0);
    ::_exit(0);
  }

  Pipe answer_, end_;
  pid_t pid_ = 0, parent_ = 0;
};

std::string launch_of(const char* port) {
  return "host:127.0.0.1:" + std::string(port) + ":" + std::to_string(::getpid());
}
}  // namespace

TEST_CASE("ranks with a wrapper each have the parent of the first", "[worker]") {
  const Wrapper first(launch_of("1"));
  const Wrapper second(launch_of("1")), third(launch_of("1"));
  CHECK(first.parent_of_rank() == first.pid());
  CHECK(second.parent_of_rank() == first.pid());
  CHECK(third.parent_of_rank() == first.pid());
}

TEST_CASE("ranks of launches with other ports have their own parents", "[worker]") {
  const Wrapper first(launch_of("2")), second(launch_of("3"));
  CHECK(second.parent_of_rank() == second.pid());
}

TEST_CASE("a rank whose predecessors have ended has its own parent", "[worker]") {
  { const Wrapper first(launch_of("4")); }
  const Wrapper second(launch_of("4"));
  CHECK(second.parent_of_rank() == second.pid());
}

}  // namespace ddpscope::test::launch_parent_test
