#pragma once

#include <vector>

#include "model/rank_ending.h"
#include "records/launch_file.h"
#include "records/rank_file.h"

namespace ddpscope {

/// How the ranks of one run ended: what their files say of themselves, and what the launcher saw.
/// Ranks that still run, or of which nothing is known, are left out.
RanksEndedEvent endings_of(const std::vector<RankFile>& files,
                           const std::vector<LaunchRecord>& launches);

}  // namespace ddpscope
