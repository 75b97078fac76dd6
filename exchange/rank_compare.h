#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "exchange/rank_ring.h"
#include "model/rank_compare_event.h"

namespace ddpscope {

struct CompareOptions {
  std::int64_t world_size = 1;
  RanksEndedEvent endings;       ///< empty while the ranks run
  std::int64_t now_unix_ns = 0;  ///< while the ranks run; 0: afterwards
  /// While the ranks run: since when the progress of each was seen not to change.
  std::map<std::int64_t, std::int64_t> still_since_unix_ns;
  std::int64_t hang_after_ms = 120000;
  /// Told after each ring of each of the two passes; may be empty.
  std::function<void(std::size_t done, std::size_t all)> progress;
};

/// Walks the rings of one run, by rank, in lock step: per group call by call, per cohort step by
/// step. Reads each ring twice and keeps a small part of it; looks closer at the first
/// disagreement of each kind alone.
RanksComparedEvent compare_ranks(const std::vector<RingReader>& rings,
                                 const CompareOptions& options);

}  // namespace ddpscope
