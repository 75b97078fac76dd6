#pragma once

#include <string>
#include <vector>

#include "checks/run_state.h"
#include "checks/thrown_in.h"
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
Finding failed_operator(const OperatorFailedEvent& event, const ThrownIn& thrown,
                        const RunState& state);
/// An operator that no survey saw to its end. `last`: what is known of its module, or null.
Finding failed_unseen(const ErrorEvent& event, const ThrownIn& thrown, const SurveyedOp* last,
                      const RunState& state);

}  // namespace ddpscope
