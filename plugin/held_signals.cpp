#include "plugin/held_signals.h"

#include <cerrno>
#include <ctime>
#include <initializer_list>

namespace ddpscope {

HeldSignals::HeldSignals() noexcept {
  sigset_t pending;
  sigpending(&pending);
  sigemptyset(&ours_);
  for (const int signal : {SIGXFSZ, SIGPIPE}) {  // one that waits already is the program's
    if (!sigismember(&pending, signal)) sigaddset(&ours_, signal);
  }
  pthread_sigmask(SIG_BLOCK, &ours_, &before_);
}

HeldSignals::~HeldSignals() noexcept {
  const int error = errno;
  const timespec at_once{};
  while (sigtimedwait(&ours_, nullptr, &at_once) > 0) {
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = error;
}

}  // namespace ddpscope
