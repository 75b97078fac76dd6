#pragma once

#include <string_view>
#include <vector>

#include "model/rank_compare_event.h"

namespace ddpscope {

/// What batch normalization keeps for evaluation: each rank follows its own batches.
bool is_running_statistic(std::string_view path);

/// Ranks that evaluated with their running statistics or saved them.
RankList evaluated_ranks(const Cohort& cohort);

/// The running means lie so far apart that an evaluation depends on the rank it runs on.
bool are_means_apart(const ValuesDiffer& values);

/// The facts of what the ranks' sketches tell; none where they left none.
void add_estimate(const ValuesDiffer& values, Finding& finding);

/// A note that layers normalise over the local batch becomes a warning where running statistics lie
/// apart and only some of the ranks use them.
void raise_local_norms(const std::vector<Finding*>& all);

}  // namespace ddpscope
