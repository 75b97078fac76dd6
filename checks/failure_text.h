#pragma once

#include <string>
#include <vector>

#include "checks/run_state.h"
#include "model/error_event.h"
#include "model/finding.h"

namespace ddpscope {

/// The last operator of a module that a survey saw.
struct SurveyedOp {
  std::string op;
  std::int64_t step = 0;
  std::vector<std::vector<std::int64_t>> shapes = {};
};

/// The findings of module-operator-failed.
Finding failed_operator(const OperatorFailedEvent& event, const RunState& state);
Finding failed_in_module(const ErrorEvent& event, const SurveyedOp& last, const RunState& state);

}  // namespace ddpscope
