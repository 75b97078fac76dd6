#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checks/check.h"
#include "checks/run_state.h"

namespace ddpscope {

/// Parameters that were updated with gradients of earlier steps.
struct StaleGradients {
  std::vector<TensorId> parameters;
  bool all = false;                ///< of those that are updated together
  bool now_and_then = false;       ///< they are cleared before some of the updates
  std::int64_t accumulations = 0;  ///< the most since one was cleared
  std::int64_t period = 0;         ///< accumulations per step before; 0: not learned
  std::string updates;             ///< `4 steps of SGD`
  std::string clearing;            ///< the call that would clear them
  std::vector<std::string> optimizers;
  std::vector<TensorId> cleared;  ///< that were, of any model
};

/// A finding for each part of a model that they are all of.
void say_stale(const StaleGradients& stale, const RunState& state, Findings& findings);

}  // namespace ddpscope
