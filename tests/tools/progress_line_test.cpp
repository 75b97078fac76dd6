// The line of progress, as a terminal and as a file get it.
#include "tools/progress_line.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "tests/support/catch.h"
#include "tests/support/temporary_dir.h"

namespace ddpscope {
namespace {
using namespace std::chrono_literals;

/// Takes what is written to stderr meanwhile.
class Stderr {
 public:
  explicit Stderr(int to) : before_(::dup(STDERR_FILENO)) { ::dup2(to, STDERR_FILENO); }
  ~Stderr() {
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
  }
  Stderr(const Stderr&) = delete;
  Stderr& operator=(const Stderr&) = delete;

 private:
  int before_;
};

std::string all_in(int file) {
  std::string text(4096, '\0');
  const ssize_t bytes = ::read(file, text.data(), text.size());
  text.resize(bytes < 0 ? 0 : static_cast<std::size_t>(bytes));
  return text;
}

void tell_slowly(int to, std::chrono::milliseconds before_last) {
  const Stderr taken(to);
  ProgressLine line("reading ranks");
  line.tell(1, 3);
  std::this_thread::sleep_for(before_last);
  line.tell(2, 3);
  line.tell(3, 3);
}

/// Both ends of a new terminal.
struct Terminal {
  Terminal() {
    REQUIRE(::grantpt(outside) == 0);
    REQUIRE(::unlockpt(outside) == 0);
    inside = ::open(::ptsname(outside), O_RDWR | O_NOCTTY);
    REQUIRE(inside >= 0);
  }
  ~Terminal() {
    ::close(inside);
    ::close(outside);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  int outside = ::posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
  int inside = -1;
};
}  // namespace

TEST_CASE("a terminal sees a line of progress after a second, and it is gone at the end") {
  const Terminal terminal;
  tell_slowly(terminal.inside, 1100ms);
  CHECK(all_in(terminal.outside) == "\r\x1b[Kreading ranks: 2 of 3\r\x1b[K");
}

TEST_CASE("what is over within a second leaves no line on a terminal") {
  const Terminal terminal;
  tell_slowly(terminal.inside, 0ms);
  CHECK(all_in(terminal.outside).empty());
}

TEST_CASE("a file never gets the line of progress") {
  const TemporaryDir dir;
  const int file = ::open((dir / "err").c_str(), O_RDWR | O_CREAT, 0600);
  REQUIRE(file >= 0);
  tell_slowly(file, 1100ms);
  CHECK(::lseek(file, 0, SEEK_CUR) == 0);
  ::close(file);
}

}  // namespace ddpscope
