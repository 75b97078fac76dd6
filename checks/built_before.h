#pragma once

#include <cstdint>

#include "checks/run_state.h"

namespace ddpscope {

/// Whether an optimizer that stepped in the last `cycles` was built before the parameter was
/// registered, or still holds its predecessor.
bool was_built_before(const RunState& state, const TensorState& tensor, std::int64_t cycles);

}  // namespace ddpscope
