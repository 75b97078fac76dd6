#pragma once

#include "hooks/hook_state.h"

namespace torch::nn {
class Module;
}

namespace ddpscope {

class Capture;

/// Finds the models of a program that attaches none. A module on which the program itself calls
/// `parameters`, `named_parameters`, `to`, `train`, `eval` or `zero_grad` is a candidate: it is
/// alive in that call. Candidates that are no other candidate's child become roots when an
/// optimizer is built, or a forward or a backward begins. A layer of LibTorch that is asked without
/// its children is none: so `clone()` asks what it copies.
///
/// `start` is called before the first candidate is taken, and again until the capture runs.
void discover_models(void (*start)() noexcept) noexcept;

bool is_discovering() noexcept;

/// The program attaches models itself: what was discovered ends, and nothing more is.
void stop_discovery() noexcept;

/// Stands while the program is inside one of those methods. What LibTorch calls from inside it
/// says nothing about the program.
class ProgramCall {
 public:
  explicit ProgramCall(const torch::nn::Module& module, bool recurse = true);
  ~ProgramCall();
  ProgramCall(const ProgramCall&) = delete;
  ProgramCall& operator=(const ProgramCall&) = delete;
};

/// Whether there are candidates that `attach_discovered` has not seen.
inline bool has_discovered() noexcept {
  return hook_state.has_discovered.load(std::memory_order_relaxed);
}
/// Whether there are others, which can wait until hooks wake: a program that makes models all the
/// time drops most of them before.
inline bool discovery_waits() noexcept {
  return hook_state.discovery_waits.load(std::memory_order_relaxed);
}
/// Hooks wake.
inline void end_wait_of_discovery() noexcept {
  if (discovery_waits() && hook_state.discovery_waits.exchange(false)) {
    hook_state.has_discovered.store(true, std::memory_order_release);
  }
}

/// Attaches the roots among the candidates of this thread, also those that could wait; detaches
/// those that got a parent.
void attach_discovered(Capture& capture);

/// Starts the capture where discovery is on: a program may train without any module.
void start_discovery_session() noexcept;

}  // namespace ddpscope
