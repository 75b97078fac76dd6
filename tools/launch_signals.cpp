#include "tools/launch_signals.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "tools/exit_status.h"

namespace ddpscope {
namespace {
constexpr std::array kForwarded = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

bool is_ignored(int signal) {
  struct sigaction action = {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}
}  // namespace

LaunchSignals::LaunchSignals() {
  sigset_t watched;
  ::sigemptyset(&watched);
  ::sigaddset(&watched, SIGCHLD);
  for (const int signal : kForwarded) {
    if (!is_ignored(signal)) ::sigaddset(&watched, signal);
  }
  ::sigprocmask(SIG_BLOCK, &watched, &before_);
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &pipe_before_);
  fd_ = FileDescriptor(::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd_) throw CommandError(ExitStatus::kInternal, "signalfd failed");
}

LaunchSignals::~LaunchSignals() {
  ::sigaction(SIGPIPE, &pipe_before_, nullptr);
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);
}

int LaunchSignals::next() const {
  signalfd_siginfo info{};
  return ::read(fd_.get(), &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo)
                                                                : 0;
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

int signal_number(const std::string& name) {
  for (int signal = 1; signal < NSIG; ++signal) {
    if (signal_name(signal) == name) return signal;
  }
  return 0;
}

std::string signal_words(int signal) {
  if (::sigabbrev_np(signal) == nullptr) return signal_name(signal);
  return fmt::format("{} (signal {})", signal_name(signal), signal);
}

}  // namespace ddpscope
