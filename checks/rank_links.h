#pragma once

#include <vector>

#include "model/finding.h"

namespace ddpscope {

/// Whether `effect` only follows from `cause`, where the two concern several ranks.
bool explains_over_ranks(const Finding& cause, const Finding& effect);

/// Gives findings over all ranks, and those of single ranks that follow from them, their nearest
/// cause. No chain of causes is closed to a circle.
void link_over_ranks(const std::vector<Finding*>& findings);

}  // namespace ddpscope
