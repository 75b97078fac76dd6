#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "exchange/call_blocks.h"
#include "model/rank_compare_event.h"

namespace ddpscope {

/// Of these groups those that are disjoint parts of `cohort` and have all of its ranks; empty where
/// a rank is in none of them, or in several.
std::vector<RankList> parts_of(const RankList& cohort, const std::vector<RankList>& groups);

struct RankCohorts {
  std::vector<RankList> cohorts;
  std::vector<RankList> groups;      ///< of ranks that average over one process group
  std::vector<std::string> remarks;  ///< ranks that are in none, and why
  /// Of the one cohort of all: those outside of each group that averages, and these are complete.
  RankList outside;
};

/// Ranks that average their gradients with one another, as their calls tell, form a cohort each;
/// without such calls, or with one such cohort, all ranks together are one.
RankCohorts cohorts_of(const std::vector<RankCalls>& calls);

/// The groups that have ranks of several cohorts.
std::set<std::uint64_t> groups_across(const std::vector<RankList>& cohorts,
                                      const std::vector<RankCalls>& calls);

}  // namespace ddpscope
