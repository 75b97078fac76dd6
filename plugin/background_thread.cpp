#include "plugin/background_thread.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

namespace ddpscope {

void become_background(const char* name) noexcept {
  sigset_t all;
  sigfillset(&all);
  sigdelset(&all, SIGBUS);  // of a ring that was cut, exchange/ring_guard.h
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  pthread_setname_np(pthread_self(), name);
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 5);
}

}  // namespace ddpscope
