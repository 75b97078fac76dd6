#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "config/settings.h"
#include "exchange/ring_set.h"
#include "model/finding.h"
#include "model/run_record.h"

namespace ddpscope {

/// Finds ranks of which nothing arrives while others train (tool-rank-missing); the lowest rank
/// asks. Where some ranks may leave their records elsewhere, nothing is said of those.
class MissingRanks {
 public:
  MissingRanks(const RunRecord& run, const Settings& settings);

  /// How what other ranks leave reaches this one.
  enum class Way : std::uint8_t { kNotKnown, kFolder, kStore };
  /// `set`: the rings that are compared. Once, as soon as some are missing after a step ended here
  /// for longer than the timeout; where they are sent, for three times as long.
  std::optional<Finding> look(const RingSet& set, Way way, std::int64_t now_ns);

 private:
  using Ages = std::map<std::int64_t, std::int64_t>;  ///< of the last heartbeat, in ms, when the
                                                      ///< others ended their last step; -1: none
  Ages missing_in(const std::vector<RingReader>& rings, Way way) const;
  Finding describe(const Ages& missing, const RingSet& set, std::int64_t waited_ms) const;

  std::int64_t rank_;
  std::int64_t world_size_;
  std::int64_t timeout_ms_;
  bool is_on_;
  std::int64_t first_step_ns_ = 0;  ///< when a step was first seen to have ended; 0: none has
};

}  // namespace ddpscope
