#pragma once

#include <vector>

#include "exchange/call_blocks.h"
#include "model/rank_compare_event.h"

namespace ddpscope {

struct RankCohorts {
  std::vector<RankList> cohorts;
  std::vector<std::string> remarks;  ///< ranks that are in none, and why
};

/// Ranks that average their gradients with one another, as their calls tell, form a cohort each;
/// without such calls, or with one such cohort, all ranks together are one.
RankCohorts cohorts_of(const std::vector<RankCalls>& calls);

}  // namespace ddpscope
