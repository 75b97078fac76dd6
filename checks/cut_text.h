#pragma once

#include "checks/gradient_cuts.h"
#include "checks/run_state.h"
#include "model/finding.h"

namespace ddpscope {

/// A warning of autograd-cut about the starved parameters. `since_step`: the first step with this
/// cut.
Finding cut_finding(const GradientCut& cut, std::int64_t since_step, const RunState& state);

/// An error that a loss has no graph while members of optimizers are frozen.
Finding frozen_finding(const std::vector<const TensorState*>& frozen, const ErrorEvent& refused,
                       const RunState& state);

/// An error that a loss has no graph, where nothing that was recorded tells why. `untrained`: what
/// optimizers hold and never had a gradient.
Finding no_graph_finding(const std::vector<const TensorState*>& untrained,
                         const ErrorEvent& refused, const RunState& state);

/// A backward that was refused after an autograd::grad() of this step that made no graph.
Finding after_grad_finding(const ErrorEvent& refused, const RunState& state);

/// An autograd::grad() that was refused for one of its inputs; its text begins with `element `.
Finding input_without_grad_finding(const ErrorEvent& refused, const RunState& state);

}  // namespace ddpscope
