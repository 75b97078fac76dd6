#pragma once

#include <string>

#include "checks/nonfinite_trail.h"
#include "checks/run_state.h"
#include "model/finding.h"

namespace ddpscope {

/// What is said of the operator, or of the leaf that it read, where NaN or Inf of a forward began.
Finding describe_origin(const NonfiniteOutputEvent& event, const NonfiniteTrail& trail,
                        const RunState& state);

/// Of a parameter in float16: an optimizer steps it there, whose eps is 0 in that type. Returns
/// whether one is known.
bool say_lost_eps(TensorId source, const RunState& state, Finding& finding);

/// The loss was finite and grew over the steps: that is why, and what helps comes first.
void say_growth(const NonfiniteTrail& trail, Finding& finding);

}  // namespace ddpscope
