#pragma once

#include <string>

#include "checks/run_state.h"
#include "model/finding.h"

namespace ddpscope {

/// Whether LibTorch threw this because an argument is an undefined tensor.
bool is_of_undefined(const std::string& message);

/// Which argument it is, and the parameters that forward no longer reads: a member that a program
/// assigned is no leaf, and has no gradient.
void say_undefined(const std::string& message, const RunState& state, Finding& finding);

}  // namespace ddpscope
