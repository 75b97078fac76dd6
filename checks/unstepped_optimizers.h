#pragma once

#include <map>
#include <optional>

#include "checks/run_state.h"
#include "model/finding.h"

namespace ddpscope {

/// Loops that clear gradients through an optimizer, run backward, and never call a `step()`.
class UnsteppedOptimizers {
 public:
  void on(const BackwardEvent& event);
  /// Where ranks are sent parameters, another one steps: no step is missed here.
  void on(const CollectiveEvent& event, const RunState& state);
  /// A gradient was not finite: that step is left out on purpose.
  void step_is_spoilt() { cleared_.clear(); }
  /// A finding where the gradients of so many backwards were cleared unused; once.
  std::optional<Finding> on(const ZeroGradEvent& event, const RunState& state);

 private:
  std::int64_t backwards_ = 0;  ///< that accumulate
  struct Cleared {
    std::int64_t after = 0;  ///< backwards
    std::int64_t times = 0;
  };
  std::map<OptimizerId, Cleared> cleared_;
};

}  // namespace ddpscope
