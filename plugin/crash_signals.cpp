#include "plugin/crash_signals.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>

#include "exchange/ring_guard.h"
#include "plugin/crash_note.h"

namespace ddpscope {
namespace {
constexpr std::array kAsked = {SIGTERM, SIGPIPE, SIGHUP, SIGINT, SIGQUIT};
constexpr std::array kFaults = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
constexpr std::size_t kStackBytes = std::size_t{64} << 10;

LoopPosition (*position)() noexcept = nullptr;
std::atomic<bool> at_exit{false};

// What the program had set before us; complete before our handler can run.
std::array<struct sigaction, NSIG> before;

// The default action, as if we had never been there: the same status, the same core. The signal is
// sent again with all that came with it, and arrives where it did, when we return.
void die_by_default(int signal, siginfo_t* info) noexcept {
  sigaction(signal, &before[static_cast<std::size_t>(signal)], nullptr);
  const auto thread = static_cast<pid_t>(syscall(SYS_gettid));
  if (syscall(SYS_rt_tgsigqueueinfo, getpid(), thread, signal, info) != 0) raise(signal);
}

void on_signal(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  if (signal == SIGBUS && info->si_code == BUS_ADRERR && mend_ring(info->si_addr)) {
    errno = error;
    return;
  }
  const LoopPosition at = position();
  const bool exits = at_exit.load(std::memory_order_relaxed);
  crash_note::write_signal(signal, at.step, exits ? Phase::kExit : at.phase);
  errno = error;
  const struct sigaction& earlier = before[static_cast<std::size_t>(signal)];
  if ((earlier.sa_flags & SA_SIGINFO) != 0) {
    earlier.sa_sigaction(signal, info, context);
  } else if (earlier.sa_handler == SIG_DFL) {
    die_by_default(signal, info);
  } else {
    earlier.sa_handler(signal);
  }
}

void watch(int signal) noexcept {
  struct sigaction& earlier = before[static_cast<std::size_t>(signal)];
  if (sigaction(signal, nullptr, &earlier) != 0) return;
  const bool has_handler = (earlier.sa_flags & SA_SIGINFO) != 0;
  if (!has_handler && earlier.sa_handler == SIG_IGN) return;
  const bool is_default = !has_handler && earlier.sa_handler == SIG_DFL;
  struct sigaction ours = earlier;  // mask and flags of the handler that runs after it
  ours.sa_sigaction = on_signal;
  ours.sa_flags |= SA_SIGINFO;
  if (is_default) {
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigfillset(&ours.sa_mask);  // nothing comes between the note and the end
  }
  sigaction(signal, &ours, nullptr);
}

// A stack that overflowed cannot hold a handler.
void give_stack() noexcept {
  stack_t now{};
  if (sigaltstack(nullptr, &now) != 0 || (now.ss_flags & SS_DISABLE) == 0) return;
  void* const memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) return;
  const stack_t ours{.ss_sp = memory, .ss_flags = 0, .ss_size = kStackBytes};
  sigaltstack(&ours, nullptr);
}

bool under_sanitizer() noexcept {
  constexpr std::array kRuntimes = {"__asan_init", "__tsan_init", "__msan_init", "__hwasan_init",
                                    "__ubsan_handle_add_overflow"};
  return std::ranges::any_of(kRuntimes,
                             [](const char* name) { return dlsym(RTLD_DEFAULT, name) != nullptr; });
}
}  // namespace

void watch_signals(LoopPosition (*where)() noexcept) noexcept {
  position = where;
  for (const int signal : kAsked) watch(signal);
  if (under_sanitizer()) return;
  give_stack();
  for (const int signal : kFaults) watch(signal);
}

void signals_at_exit() noexcept { at_exit = true; }

}  // namespace ddpscope
