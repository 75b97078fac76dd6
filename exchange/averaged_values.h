#pragma once

#include "model/rank_compare_event.h"

namespace ddpscope {

/// Whether the ranks average their gradients as far as these tell by their values, or are about to
/// and fail, whatever the calls are that bring them there.
bool averages_by_value(const Cohort& cohort);

}  // namespace ddpscope
