#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>

#include "config/resolve.h"
#include "hooks/capture.h"
#include "hooks/operator_names.h"
#include "plugin/crash_signals.h"
#include "plugin/process_life.h"
#include "plugin/public_api.h"
#include "plugin/stack_sites.h"
#include "plugin/worker.h"

namespace ddpscope {

/// The one session of a process: made by the first attach, never destroyed.
class Session {
 public:
  /// Starts the session unless it runs already; false when it is off or stays dormant.
  /// @throws SettingsFault if a setting is wrong; nothing was started then.
  static bool start(const OptionTexts& options, bool only_by_environment);
  /// The running session of this process; null when there is none, after exit and in a forked
  /// child.
  static Session* running() noexcept;

  /// Of the last session, also after its end. Safe in a signal handler.
  static LoopPosition position() noexcept;

  Capture& capture() noexcept { return capture_; }
  Worker& worker() noexcept { return worker_; }

  /// Everything up to now judged and on disk.
  void drain();
  /// At exit with this code, once.
  void finish(int exit_code) noexcept;
  /// From the terminate handler.
  void die(const UncaughtException& exception) noexcept;
  /// The exit code that the settings ask for instead of 0; 0 when they ask for none.
  int exit_code() const noexcept { return exit_code_; }
  void leave_to_child() noexcept { abandoned_ = true; }

 private:
  Session(Resolved resolved, WorkerOptions options);
  static void throw_if_halted();
  static void take_late_values() noexcept;
  /// A record of this moment.
  ProgressRecord progress(const char* reason) const;
  void summarize(bool clean_exit);

  Settings settings_;
  StackSites sites_{operator_called_by};
  Worker worker_;
  Capture capture_;
  int exit_code_ = 0;
  std::atomic<bool> finished_{false};
  std::atomic<bool> abandoned_{false};
};

/// Rank and world size that the program said; they win over the environment. -1: not said.
void override_ranks(int rank, int world_size) noexcept;

}  // namespace ddpscope
