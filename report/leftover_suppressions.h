#pragma once

#include <vector>

#include "records/rank_file.h"

namespace ddpscope {

/// The lines of suppressions files that matched nothing on any rank, and those past their last day,
/// in the order of the file. `all_ended`: every rank left its summary; without one nobody knows
/// what it would still have found, and a line counts as unused only then.
std::vector<SuppressionRecord> leftover_suppressions(const std::vector<RankFile>& files,
                                                     bool all_ended);

}  // namespace ddpscope
