#include "tools/scratch_process.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>

#include "tools/launch_signals.h"
#include "tools/rank_output.h"
#include "tools/rank_process.h"
#include "tools/rank_streams.h"

namespace ddpscope {
namespace {
/// What is there now; closes the pipe at its end.
std::string read_some(FileDescriptor& pipe) {
  std::array<char, 65536> buffer;
  const auto bytes = ::read(pipe.get(), buffer.data(), buffer.size());
  if (bytes > 0) return {buffer.data(), static_cast<std::size_t>(bytes)};
  if (bytes == 0 || (errno != EAGAIN && errno != EINTR)) pipe = FileDescriptor();
  return {};
}

/// Takes what a program leaves running for its own children, and ends it.
class Orphans {
 public:
  Orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }
  ~Orphans() {
    constexpr int kTurns = 100;
    for (int i = 0; i < kTurns && end_some(); ++i) ::usleep(10'000);
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  }
  Orphans(const Orphans&) = delete;
  Orphans& operator=(const Orphans&) = delete;

 private:
  /// False when there is none any more.
  static bool end_some() {
    std::ifstream children("/proc/thread-self/children");
    bool is_any = false;
    for (pid_t pid = 0; children >> pid; is_any = true) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, WNOHANG);
    }
    return is_any;
  }
};

class ScratchProcess {
 public:
  explicit ScratchProcess(RankProcess process) : process_(std::move(process)) {}
  ~ScratchProcess() {
    ::kill(-process_.pid, SIGKILL);  // and what it started
    ::waitpid(process_.pid, nullptr, 0);
  }
  ScratchProcess(const ScratchProcess&) = delete;
  ScratchProcess& operator=(const ScratchProcess&) = delete;

  ScratchEnd wait(const LaunchSignals& signals, std::int64_t limit_ms) {
    const std::int64_t deadline = now_ms() + limit_ms;
    while (!has_ended()) {
      if (now_ms() >= deadline) end_.timed_out = true;
      for (int signal = signals.next(); signal != 0; signal = signals.next()) {
        if (signal != SIGCHLD) end_.interrupted = signal;
      }
      if (end_.timed_out || end_.interrupted != 0) break;
      read_output(signals.fd());
    }
    end_.last_error_line = lines_.last_line();
    return end_;
  }

 private:
  void read_output(int signal_fd) {
    std::array polled = {pollfd{.fd = process_.output.get(), .events = POLLIN, .revents = 0},
                         pollfd{.fd = process_.errors.get(), .events = POLLIN, .revents = 0},
                         pollfd{.fd = signal_fd, .events = POLLIN, .revents = 0}};
    constexpr int kTickMs = 50;
    if (::poll(polled.data(), polled.size(), kTickMs) <= 0) return;
    if (polled[0].revents != 0) read_some(process_.output);
    if (polled[1].revents != 0) lines_.feed(read_some(process_.errors));
  }

  /// It stays a zombie, so that its group keeps its number.
  bool has_ended() {
    siginfo_t info{};
    const auto pid = static_cast<id_t>(process_.pid);
    if (::waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
      return false;
    }
    (info.si_code == CLD_EXITED ? end_.code : end_.signal) = info.si_status;
    for (std::string text = read_some(process_.errors); !text.empty();) {
      lines_.feed(text);
      text = read_some(process_.errors);
    }
    lines_.flush();
    return true;
  }

  RankProcess process_;
  LinePrefixer lines_{""};
  ScratchEnd end_;
};
}  // namespace

ScratchEnd run_scratch(const std::vector<std::string>& argv, const ProcessEnvironment& environment,
                       std::int64_t limit_ms) {
  const LaunchSignals signals;
  const Orphans orphans;
  auto started = start_rank(argv, environment, signals.mask_before());
  if (started.error != 0) {
    ScratchEnd end;
    end.start_error = started.error;
    return end;
  }
  return ScratchProcess(std::move(started.process)).wait(signals, limit_ms);
}

}  // namespace ddpscope
