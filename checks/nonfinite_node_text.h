#pragma once

#include <string>
#include <vector>

#include "checks/run_state.h"
#include "model/finding.h"

namespace ddpscope {

/// An error of the backward of this step.
Finding error_in_backward(const Stamp& at);
/// Why the node's slope is not finite, as far as forward tells.
std::string slope_text(const NonfiniteNodeEvent& node, const RiskyInputEvent* risky,
                       const RunState& state);
/// `gradient turns NaN here, 12 of 4096 elements; ...`
std::string turns_text(const NonfiniteNodeEvent& node);
/// What to do about the operator behind the node; its name may be empty.
std::vector<Fix> slope_fixes(const NonfiniteNodeEvent& node);

}  // namespace ddpscope
