#pragma once

#include <string>

#include "checks/run_state.h"
#include "model/finding.h"

namespace ddpscope {

std::string first_line_thrown(const std::string& message);

/// Why an operator threw this, and what helps.
void explain_failure(const std::string& message, const RunState& state, Finding& finding);

}  // namespace ddpscope
