#pragma once

#include <optional>

#include "checks/run_state.h"
#include "model/finding.h"

namespace ddpscope {

/// The finding of loss-target-range.
Finding out_of_range(const OutOfRangeEvent& event, const RunState& state);
/// The same by what an operator on the CPU threw; nothing for what is of something else.
std::optional<Finding> thrown_out_of_range(const ErrorEvent& event, const RunState& state);

}  // namespace ddpscope
