#pragma once

#include <string>

#include "checks/run_state.h"
#include "model/error_event.h"
#include "model/finding.h"

namespace ddpscope {

/// Where LibTorch threw, by the call stack.
struct ThrownIn {
  Site site = {};
  std::string op = {};    ///< the outermost one that the program called; "" if none was running
  std::string line = {};  ///< of the program, which called it; "" if it is not known
};
ThrownIn thrown_in(const ErrorEvent& event, const RunState& state);

}  // namespace ddpscope
