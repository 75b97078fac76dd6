#pragma once

#include <vector>

#include "checks/run_state.h"
#include "model/finding.h"
#include "model/wait_event.h"

namespace ddpscope {

/// Adds to the finding what most of these waits are and in which modules, and what to do instead.
void tell_kinds(const std::vector<DeviceWait>& waits, const RunState& state, Finding& finding);

/// Adds where most of these waits are.
void tell_sites(std::vector<DeviceWait> waits, const RunState& state, Finding& finding);

}  // namespace ddpscope
