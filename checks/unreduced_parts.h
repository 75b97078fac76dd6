#pragma once

#include "model/finding.h"
#include "model/rank_compare_event.h"

namespace ddpscope {

/// Ranks that each step a part of the parameters by their own gradients: for grad-not-reduced.
void find_unreduced_parts(const Cohort& cohort, Findings& findings);

}  // namespace ddpscope
