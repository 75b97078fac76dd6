#pragma once

#include <signal.h>

#include <string>

#include "records/file_descriptor.h"

namespace ddpscope {

/// Blocks the signals that a launcher forwards, and SIGCHLD, and gives them as a file to poll.
/// Signals that were ignored before stay ignored. Undone at the end.
class LaunchSignals {
 public:
  LaunchSignals();
  ~LaunchSignals();
  LaunchSignals(const LaunchSignals&) = delete;
  LaunchSignals& operator=(const LaunchSignals&) = delete;

  int fd() const { return fd_.get(); }
  /// The next pending signal, or 0.
  int next() const;
  const sigset_t& mask_before() const { return before_; }

 private:
  sigset_t before_;
  FileDescriptor fd_;
  struct sigaction pipe_before_ = {};
};

/// `SIGKILL`, `signal 40`
std::string signal_name(int signal);
/// Of such a name; 0: none.
int signal_number(const std::string& name);
/// `SIGKILL (signal 9)`
std::string signal_words(int signal);

}  // namespace ddpscope
