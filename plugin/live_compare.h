#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "config/settings.h"
#include "exchange/ring_set.h"
#include "model/finding.h"
#include "model/rank_compare_event.h"
#include "model/run_record.h"

namespace ddpscope {

/// Compares the rings of the run in one folder while this rank hangs, as a merge would afterwards.
/// On the worker's thread.
class LiveCompare {
 public:
  LiveCompare(const RunRecord& run, const Settings& settings);

  /// This rank waits for too long; its ring lies in `dir`. Nothing where it looks already.
  void begin(const std::string& dir, std::int64_t now_ns);
  /// What explains it, once: found by the lowest of the ranks that wait. That others lag is told
  /// before it is known whether they hang.
  Findings look(std::int64_t now_ns);

 private:
  struct Beat {
    std::uint64_t progress = 0;
    std::int64_t unix_ns = 0;
  };
  using Beats = std::map<std::int64_t, Beat>;
  static Beats beats_of(const RingSet& set);
  void renew_old_beats();
  RingSet open() const;
  bool is_first_of_waiting(const RanksComparedEvent& run) const;
  Findings compare() const;
  void tell_lag_once(Findings& findings);

  std::int64_t rank_;
  std::int64_t world_size_;
  std::int64_t hang_after_ms_;
  std::string run_id_;
  std::set<std::string> checks_;
  bool lag_told_ = false;  ///< of this hang
  std::string dir_;
  Beats before_;                          ///< of each rank, when this one began to look
  std::int64_t moved_until_unix_ns_ = 0;  ///< a beat from before may not tell the last movement
  std::int64_t renewal_ns_ = 0;
  std::int64_t due_ns_ = 0;  ///< 0: not looking
  std::int64_t pause_ns_ = 0;
};

}  // namespace ddpscope
