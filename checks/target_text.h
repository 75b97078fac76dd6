#pragma once

#include <vector>

#include "checks/run_state.h"
#include "model/finding.h"

namespace ddpscope {

/// A model that is trained and whose parameters have the shapes of this one's; null: none.
const ModelState* trained_twin(const ModelState& target, const RunState& state);

/// Leaves out those of models that may be targets: no optimizer steps them, and a model of the same
/// shapes is trained.
void drop_targets(std::vector<TensorId>& parameters, const RunState& state);

/// Of parameters that get gradients and no optimizer holds: where the program averages or copies
/// them from a model that is trained, or may do so, they are a target, which nobody is to train.
void say_target(const std::vector<const TensorState*>& parameters, const RunState& state,
                Finding& finding);

}  // namespace ddpscope
