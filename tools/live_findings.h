#pragma once

#include <vector>

#include "model/finding.h"
#include "records/rank_file.h"

namespace ddpscope {

/// What ranks said of all ranks while they ran, taken out of their files.
Findings take_live_findings(const std::vector<RankFile*>& files);

/// Adds to what a merge found over all ranks what they had said of it while they ran: once each,
/// the one of the earlier step, for rings forget. What single ranks said of themselves
/// (`of_ranks`) goes before both.
void add_live_findings(Findings&& live, const std::vector<Finding*>& of_ranks, Findings& at_merge);

}  // namespace ddpscope
