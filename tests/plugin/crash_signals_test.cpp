// A signal must do to a program exactly what it did without us.
#include "plugin/crash_signals.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "exchange/rank_ring.h"
#include "exchange/ring_guard.h"
#include "model/clock.h"
#include "plugin/background_thread.h"
#include "plugin/crash_note.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_dir.h"

namespace ddpscope {
namespace {
constexpr int kSignals[] = {SIGTERM, SIGABRT, SIGSEGV, SIGBUS, SIGFPE,  SIGPIPE,
                            SIGHUP,  SIGINT,  SIGQUIT, SIGILL, SIGTRAP, SIGSYS};
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

LoopPosition position() noexcept { return {.step = 7, .phase = Phase::kReduce}; }

struct Ending {
  int status = 0;
  std::vector<nlohmann::json> notes;
};

using Program = std::function<void()>;

Ending run(const Program& before, const Program& after, bool watched) {
  const TemporaryDir dir;
  const std::string path = dir / "notes";
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit no_core{};
    ::setrlimit(RLIMIT_CORE, &no_core);
    for (const int signal : kSignals) ::signal(signal, SIG_DFL);
    before();
    if (watched) {
      crash_note::open(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT, 0600));
      crash_note::set_place(7, R"(,"model":"net","module_path":"head","op":"aten::view")");
      watch_signals(position);
    }
    after();
    ::_exit(0);
  }
  Ending ending;
  ::waitpid(child, &ending.status, 0);
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    ending.notes.push_back(nlohmann::json::parse(line));
  }
  return ending;
}

/// The notes, after the same status as without us.
std::vector<nlohmann::json> notes_of(const Program& before, const Program& after) {
  const Ending watched = run(before, after, true);
  CHECK(watched.status == run(before, after, false).status);
  return watched.notes;
}

void nothing() {}

volatile int arrived = 0;
void go_on(int) { arrived = arrived + 1; }

void write_to_nobody() {
  int ends[2];
  if (::pipe(ends) != 0) ::_exit(99);
  ::close(ends[0]);
  if (::write(ends[1], "x", 1) >= 0 || errno != EPIPE) ::_exit(98);
}

// The result keeps the calls from becoming a loop.
int overflow(volatile char* above) {
  if (*above == 1) return 0;
  volatile char room[4096];
  room[0] = *above;
  return overflow(room) + room[0];
}
}  // namespace

TEST_CASE("A signal that ends the process is noted and ends it as before", "[plugin]") {
  if (kSanitized) DDPSCOPE_SKIP("the sanitizer owns some of these signals");
  for (const int signal : kSignals) {
    const auto notes = notes_of(nothing, [signal] { ::raise(signal); });
    REQUIRE(notes.size() == 1);
    CHECK(notes[0].at("record") == "progress");
    CHECK(notes[0].at("reason") == "signal");
    CHECK(notes[0].at("signal") == std::string("SIG") + ::sigabbrev_np(signal));
    CHECK(notes[0].at("step") == 7);
    CHECK(notes[0].at("phase") == "reduce");
    CHECK(notes[0].at("module_path") == "head");
    CHECK(std::abs(notes[0].at("time_unix_ns").get<std::int64_t>() - unix_ns()) < 60'000'000'000);
    CHECK(WTERMSIG(run(
                       nothing, [signal] { ::raise(signal); }, true)
                       .status) == signal);
  }
}

TEST_CASE("A real fault, an overflowed stack and a closed pipe are noted", "[plugin]") {
  if (kSanitized) DDPSCOPE_SKIP("the sanitizer owns some of these signals");
  const auto fault = [] {
    volatile std::uintptr_t nowhere = 8;  // the compiler would refuse a constant
    *reinterpret_cast<volatile int*>(nowhere) = 1;
  };
  CHECK(notes_of(nothing, fault).size() == 1);
  const auto deep = [] {
    volatile char first = 0;
    ::_exit(overflow(&first));
  };
  CHECK(notes_of(nothing, deep).size() == 1);
  CHECK(notes_of(nothing, write_to_nobody).size() == 1);
  CHECK(notes_of(nothing, ::abort).size() == 1);
}

TEST_CASE("The program's earlier handler runs with all that came with the signal", "[plugin]") {
  const auto install = [] {
    struct sigaction action = {};
    action.sa_flags = SA_SIGINFO;
    action.sa_sigaction = [](int signal, siginfo_t* info, void* context) {
      ::_exit(signal == SIGTERM && info->si_value.sival_int == 42 && context != nullptr ? 5 : 6);
    };
    ::sigaction(SIGTERM, &action, nullptr);
  };
  const auto notes =
      notes_of(install, [] { ::sigqueue(::getpid(), SIGTERM, sigval{.sival_int = 42}); });
  CHECK(notes.size() == 1);
  CHECK(WEXITSTATUS(
            run(
                install, [] { ::sigqueue(::getpid(), SIGTERM, sigval{.sival_int = 42}); }, true)
                .status) == 5);
}

TEST_CASE("A program whose handler goes on goes on", "[plugin]") {
  const auto install = [] { ::signal(SIGTERM, go_on); };
  const auto twice = [] {
    errno = 77;
    ::raise(SIGTERM);
    ::raise(SIGTERM);
    ::_exit(errno == 77 ? arrived : 99);
  };
  CHECK(notes_of(install, twice).size() == 2);
  CHECK(WEXITSTATUS(run(install, twice, true).status) == 2);
}

TEST_CASE("A handler that is good for one signal is good for one signal", "[plugin]") {
  const auto install = [] {
    struct sigaction action = {};
    action.sa_handler = go_on;
    action.sa_flags = SA_RESETHAND;
    ::sigaction(SIGHUP, &action, nullptr);
  };
  const auto twice = [] {
    ::raise(SIGHUP);
    ::raise(SIGHUP);
  };
  notes_of(install, twice);
  CHECK(WTERMSIG(run(install, twice, true).status) == SIGHUP);
}

TEST_CASE("What the program ignores stays ignored", "[plugin]") {
  const auto ignore = [] { ::signal(SIGPIPE, SIG_IGN); };
  const auto write = [] {
    write_to_nobody();
    struct sigaction now = {};
    ::sigaction(SIGPIPE, nullptr, &now);
    ::_exit(now.sa_handler == SIG_IGN ? 3 : 4);
  };
  CHECK(notes_of(ignore, write).empty());
  CHECK(WEXITSTATUS(run(ignore, write, true).status) == 3);
}

TEST_CASE("A handler that the program sets later replaces ours", "[plugin]") {
  const auto later = [] {
    ::signal(SIGINT, go_on);
    ::raise(SIGINT);
    ::_exit(arrived);
  };
  CHECK(notes_of(nothing, later).empty());
}

TEST_CASE("A forked child leaves no note in the file of its parent", "[plugin]") {
  const auto fork_and_die = [] {
    if (::fork() == 0) ::raise(SIGTERM);
    ::wait(nullptr);
  };
  CHECK(notes_of(nothing, fork_and_die).empty());
}

TEST_CASE("A file that has the number of the closed one gets no note", "[plugin]") {
  const TemporaryDir dir;
  const std::string other = dir / "other";
  const auto closes = [&other] {
    for (int fd = STDERR_FILENO + 1; fd < 64; ++fd) ::close(fd);
    for (int i = 0; i < 8; ++i) ::open(other.c_str(), O_WRONLY | O_APPEND | O_CREAT, 0600);
    ::raise(SIGTERM);
  };
  CHECK(notes_of(nothing, closes).empty());
  CHECK(std::filesystem::file_size(other) == 0);
}

TEST_CASE("Notes are few, and close() ends them", "[plugin]") {
  const auto install = [] { ::signal(SIGTERM, go_on); };
  const auto often = [] {
    for (int i = 0; i < 40; ++i) ::raise(SIGTERM);
  };
  CHECK(notes_of(install, often).size() == 16);
  const auto closed = [] {
    crash_note::close();
    ::raise(SIGTERM);
  };
  CHECK(run(install, closed, true).notes.empty());
}

void open_ring(RingWriter& writer, const std::string& dir) {
  const FileDescriptor folder(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!writer.open(folder.get(), {.run_id = "run"}, {.calls = 64}).empty()) ::_exit(99);
}

TEST_CASE("A ring that another program cuts short ends nobody", "[plugin]") {
  if (kSanitized) DDPSCOPE_SKIP("the faults are the sanitizer's");
  const TemporaryDir dir;
  const auto issue_calls = [&dir] {
    RingWriter writer;
    open_ring(writer, dir.path());
    std::filesystem::resize_file(dir / "rank-0.ring", 0);
    for (std::uint64_t i = 0; i < 1000; ++i) writer.ended(writer.issued({.seq = i + 1}), 5, {});
    writer.put(Blob{.kind = BlobKind::kName, .bytes = "fc.weight.grad"});
    std::thread background([&writer] {
      become_background("test");
      writer.beat({.step = 3});
    });
    background.join();
    ::_exit(is_ring_mended() ? 0 : 98);
  };
  const Ending ending = run(nothing, issue_calls, true);
  CHECK(WIFEXITED(ending.status));
  CHECK(WEXITSTATUS(ending.status) == 0);
  CHECK(ending.notes.empty());
}

TEST_CASE("A SIGBUS elsewhere is the program's", "[plugin]") {
  if (kSanitized) DDPSCOPE_SKIP("the faults are the sanitizer's");
  const TemporaryDir dir;
  const auto fault_elsewhere = [&dir] {
    RingWriter writer;
    open_ring(writer, dir.path());
    const int file = ::open((dir / "data").c_str(), O_RDWR | O_CREAT, 0600);
    auto* const data = static_cast<volatile char*>(
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    data[0] = 1;
  };
  const Ending ending = run(nothing, fault_elsewhere, true);
  CHECK(WTERMSIG(ending.status) == SIGBUS);
  CHECK(ending.notes.size() == 1);
}

TEST_CASE("A place of another step is left out, and exit is a phase", "[plugin]") {
  const auto die_late = [] {
    crash_note::set_place(6, R"(,"model":"net","module_path":"tail","op":"")");
    signals_at_exit();
    ::raise(SIGTERM);
  };
  const auto notes = run(nothing, die_late, true).notes;
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].at("module_path") == "");
  CHECK(notes[0].at("phase") == "exit");
}

}  // namespace ddpscope
