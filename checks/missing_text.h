#pragma once

#include "checks/missing_cause.h"
#include "checks/subtree.h"
#include "model/reducer_event.h"

namespace ddpscope {

/// Parameters without a gradient in `kMissingCycles` cycles.
Finding missing_finding(const TensorGroup& group, const MissingCause& cause, const RunState& state);

/// Parameters without a gradient in one pass of a Reducer, which waits for them.
Finding awaited_finding(const ReducerEvent& pass, const TensorGroup& group,
                        const MissingCause& cause);

}  // namespace ddpscope
