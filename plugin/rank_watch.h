#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "config/settings.h"
#include "exchange/rank_ring.h"
#include "plugin/crash_signals.h"
#include "plugin/hang_watch.h"
#include "records/rank_file.h"

namespace ddpscope {

/// What this rank leaves for the others while it runs: its ring, with the collectives, a heartbeat
/// and whatever else is put into it. Nothing in a run of one rank.
class RankWatch {
 public:
  using Where = LoopPosition (*)() noexcept;
  RankWatch(const RunRecord& run, const Settings& settings, Where where);

  /// Null in a run of one rank. Before `open`, and where that failed, it does nothing.
  RingWriter* ring() noexcept { return is_of_several_ ? &ring_ : nullptr; }
  /// Of the ring.
  std::int64_t bytes() const noexcept;
  /// Makes the ring in this folder. Returns one line for the user, or nothing.
  std::string open(const std::string& dir);

  const std::string& dir() const noexcept { return dir_; }

  /// On the worker's thread, often. `events` counts what the training threads have told. Returns
  /// where this rank stands when it waits for too long in one collective, or does nothing for as
  /// long, once for that.
  std::optional<ProgressRecord> look(std::uint64_t events);
  /// The loop is over.
  void end();

 private:
  using Clock = std::chrono::steady_clock;
  void beat(std::uint64_t progress, bool ended);
  ProgressRecord record_of(const HangWatch::Stall& stall) const;

  bool is_of_several_;
  RingHead head_;
  RingSizes sizes_;
  Where where_;
  std::string dir_;  ///< of the ring
  RingWriter ring_;
  HangWatch hang_watch_;
  std::uint64_t progress_ = 0;
  bool tells_cut_ = false;
  Clock::time_point next_look_;
  Clock::time_point next_beat_;
};

}  // namespace ddpscope
