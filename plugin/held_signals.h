#pragma once

#include <signal.h>

namespace ddpscope {

/// While it lives, a write of ours that a limit of the process refuses, or that goes to a pipe
/// which nobody reads, sends no signal to this thread of the program: it fails, as ours.
class HeldSignals {
 public:
  HeldSignals() noexcept;
  ~HeldSignals() noexcept;
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

 private:
  sigset_t ours_;
  sigset_t before_;
};

}  // namespace ddpscope
