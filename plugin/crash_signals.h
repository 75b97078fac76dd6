#pragma once

#include <cstdint>

#include "model/finding.h"

namespace ddpscope {

/// Where the training loop is.
struct LoopPosition {
  std::int64_t step = 0;
  Phase phase = Phase::kInit;
  std::uint32_t layers = 0;  ///< called so far
};

/// Notes the signals that end a rank in its file: SIGTERM, SIGABRT, SIGSEGV, SIGBUS, SIGFPE,
/// SIGILL, SIGTRAP, SIGSYS, SIGPIPE, SIGHUP, SIGINT and SIGQUIT. What the program had set for them
/// then happens exactly as without us. Not SIGUSR1 and the like: a handler that a program sets
/// later may call the one before it, and go on. One that it ignores stays ignored; where it sets a
/// handler later, ours is gone; under a sanitizer the faults are the sanitizer's.
/// `where` is asked inside a signal handler. Once per process.
void watch_signals(LoopPosition (*where)() noexcept) noexcept;

/// From now on a signal arrives in phase `exit`.
void signals_at_exit() noexcept;

}  // namespace ddpscope
