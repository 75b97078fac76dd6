#pragma once

#include "checks/run_state.h"
#include "model/finding.h"

namespace ddpscope {

/// Where an operator of this step that can return NaN or Inf made the batch `source`, before any
/// layer read it: adds to the finding which one, and what helps.
void add_preparation(TensorId source, const RunState& state, Finding& finding);

}  // namespace ddpscope
