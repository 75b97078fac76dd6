#pragma once

#include <set>
#include <string>
#include <vector>

#include "model/finding.h"
#include "model/rank_ending.h"

namespace ddpscope {

/// Judges the run as a whole: the `enabled` checks that need the ends of all ranks. Links what they
/// find with the findings of single ranks that explain it, and marks those.
Findings judge_ranks(const RanksEndedEvent& run, const std::set<std::string>& enabled,
                     const std::vector<Finding*>& of_ranks);

}  // namespace ddpscope
