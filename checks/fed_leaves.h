#pragma once

#include <vector>

#include "checks/run_state.h"
#include "model/finding.h"

namespace ddpscope {

/// Whether the operator reads something that a known model registers.
bool reads_registered(const OpTrace::Record& record, const RunState& state);

/// Registered layers read it in this step, as their input, and nothing else does, or behind
/// detach(): data, or learnt like a parameter.
bool is_fed_to_layers(const TensorState& tensor, const RunState& state);
std::vector<Fix> fixes_of_fed();
/// Backward reaches it, and no operator of the step read it: what was made of it before is kept.
bool lies_behind_history(const TensorState& tensor, const RunState& state);

}  // namespace ddpscope
