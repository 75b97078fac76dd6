#pragma once

#include "checks/run_state.h"

namespace ddpscope {

/// A parameter that gets gradients and that no optimizer holds, of which the program has said
/// nothing. Where no module is attached, a leaf that is used as one.
bool is_ownerless(const RunState& state, const TensorState& tensor);

}  // namespace ddpscope
