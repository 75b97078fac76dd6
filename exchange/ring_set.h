#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exchange/rank_ring.h"

namespace ddpscope {

struct RingPlace {
  std::int64_t rank = 0;  ///< as the name says
  std::string path;
};

/// What in `dir` is named exactly `rank-<digits>.ring`, by rank.
std::vector<RingPlace> list_rings(const std::string& dir);

/// The rings of one run.
struct RingSet {
  std::vector<RingReader> rings;            ///< by rank, one each
  std::vector<std::string> remarks;         ///< one per place that is left out, and why
  std::vector<std::int64_t> of_other_runs;  ///< ranks whose place has the ring of another run
};
RingSet open_rings(const std::vector<RingPlace>& places, const std::string& run_id);

}  // namespace ddpscope
