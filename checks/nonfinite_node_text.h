#pragma once

#include <string>
#include <vector>

#include "checks/run_state.h"
#include "model/finding.h"

namespace ddpscope {

/// Why the node's slope is not finite, as far as forward tells.
std::string slope_text(const NonfiniteNodeEvent& node, const RiskyInputEvent* risky,
                       const RunState& state);
/// `gradient turns NaN here, 12 of 4096 elements; ...`
std::string turns_text(const NonfiniteNodeEvent& node);
/// Where the slope of an operator is not finite; "": of one that is not known.
std::vector<Fix> slope_fixes(const std::string& op);

}  // namespace ddpscope
