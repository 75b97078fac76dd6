#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "checks/run_state.h"
#include "model/finding.h"

namespace ddpscope {

/// Loops that build an optimizer anew for each step, so that its momentum or its averages begin at
/// zero each time.
class RemadeOptimizers {
 public:
  /// A finding where so many were built for the same parameters and stepped once each.
  std::optional<Finding> on(const OptimizerStepEvent& event, const RunState& state);
  void clear() { lines_.clear(); }

 private:
  struct Line {
    OptimizerId last = 0;
    std::int64_t last_step = 0;
    bool stepped_once = false;  ///< that one, so far
    std::int64_t in_a_row = 0;  ///< that did, with it
    bool told = false;
  };
  std::map<TensorId, Line> lines_;  ///< by the first member
};

}  // namespace ddpscope
