#pragma once

#include "model/finding.h"
#include "model/rank_compare_event.h"

namespace ddpscope {

/// Of ranks that average their weights now and then: what the average leaves out, or that it came
/// no more, for rank-parameters-differ. Whether it told anything.
bool tell_averaged_weights(const Cohort& cohort, bool is_live, Findings& findings);

}  // namespace ddpscope
