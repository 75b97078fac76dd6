#pragma once

#include "checks/run_state.h"
#include "model/finding.h"

namespace ddpscope {

/// Why steps wait for data while so many loader threads are alive, and what helps.
void explain_loader(std::int64_t workers, const RunState& state, Finding& finding);

}  // namespace ddpscope
