#pragma once

#include <string>
#include <string_view>

#include "checks/run_state.h"
#include "model/finding.h"

namespace ddpscope {

/// In what LibTorch throws where an argument is an undefined tensor.
inline constexpr std::string_view kUndefinedArgument = "an undefined Tensor in C++";

std::string first_line_thrown(const std::string& message);

/// Why an operator threw this, and what helps.
void explain_failure(const std::string& message, const RunState& state, Finding& finding);

}  // namespace ddpscope
