#pragma once

#include "checks/run_state.h"
#include "model/finding.h"

namespace ddpscope {

/// The finding of loss-target-range.
Finding out_of_range(const OutOfRangeEvent& event, const RunState& state);

}  // namespace ddpscope
