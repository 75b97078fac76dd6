#pragma once

#include <map>
#include <optional>

#include "checks/check.h"
#include "checks/run_state.h"
#include "model/finding.h"

namespace ddpscope {

/// Loops that have an optimizer, run backward, and never call a `step()`.
class UnsteppedOptimizers {
 public:
  void on(const BackwardEvent& event);
  /// Where ranks are sent parameters, another one steps: no step is missed here.
  void on(const CollectiveEvent& event, const RunState& state);
  /// A gradient was not finite: that step is left out on purpose.
  void step_is_spoilt() {
    cleared_.clear();
    left_ = 0;
  }
  /// Of events that were lost one may be a step.
  void drop() { is_excused_ = true; }
  /// A finding where the gradients of so many backwards were cleared unused; once.
  std::optional<Finding> on(const ZeroGradEvent& event, const RunState& state);
  /// At the end of the program: also where nothing cleared them.
  void at_exit(const RunState& state, Findings& findings);

 private:
  bool may_tell(const RunState& state) const;

  std::int64_t backwards_ = 0;  ///< that accumulate
  std::int64_t left_ = 0;       ///< of these, whose gradients the program was seen to leave alone
  bool is_excused_ = false;  ///< it takes gradients itself, or gets the parameters from elsewhere
  bool is_told_ = false;
  struct Cleared {
    std::int64_t after = 0;  ///< backwards
    std::int64_t times = 0;
  };
  std::map<OptimizerId, Cleared> cleared_;
};

}  // namespace ddpscope
