#pragma once

#include <vector>

#include "checks/run_state.h"

namespace ddpscope {

/// The first operator of the step in which what was gathered from other ranks, or what was computed
/// of it, meets values with a gradient path and has none itself. Null where there is none, and
/// where a gradient follows the rows of this rank.
const OpTrace::Record* met_by_gathered(const std::vector<TensorId>& gathered,
                                       const RunState& state);

}  // namespace ddpscope
