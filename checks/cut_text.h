#pragma once

#include "checks/gradient_cuts.h"
#include "checks/run_state.h"
#include "model/finding.h"

namespace ddpscope {

/// A warning of autograd-cut about the starved parameters. `since_step`: the first step with this
/// cut.
Finding cut_finding(const GradientCut& cut, std::int64_t since_step, const RunState& state);

/// A note that a loss has no graph while members of optimizers are frozen.
Finding frozen_finding(const std::vector<const TensorState*>& frozen, const ErrorEvent& refused,
                       const RunState& state);

}  // namespace ddpscope
