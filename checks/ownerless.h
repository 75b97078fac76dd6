#pragma once

#include "checks/run_state.h"

namespace ddpscope {

/// A parameter that gets gradients, of which the program has said nothing. Where no module is
/// attached, a leaf that is used as one.
bool needs_owner(const RunState& state, const TensorState& tensor);

/// Nothing that an optimizer still holds is in the largest part in eval mode around it: the fixed
/// network of a perceptual loss, or one that is attacked.
bool is_in_fixed_part(const RunState& state, const TensorState& tensor);

}  // namespace ddpscope
