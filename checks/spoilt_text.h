#pragma once

#include "checks/run_state.h"
#include "model/finding.h"
#include "model/value_event.h"

namespace ddpscope {

/// Of a finding about a gradient of such `values`: that backward had left it finite, and which
/// writes of the program changed it since; `is_averaged`: over ranks, any of which may have made it
/// so. Adds the site `changed`.
void say_spoilt(const GradientsSpoiltEvent& event, const ValueRange& values, bool is_averaged,
                const RunState& state, Finding& finding);

}  // namespace ddpscope
