#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "checks/run_state.h"
#include "model/finding.h"

namespace ddpscope {

/// Loops that call `step()` of an optimizer again, with the gradients that it has applied.
class RepeatedSteps {
 public:
  /// A finding where it did so behind each of some steps in a row; once for an optimizer.
  std::optional<Finding> on(const OptimizerStepEvent& event, const RunState& state);
  void clear();

 private:
  struct Steps {
    std::int64_t in_a_row = 0;  ///< with new gradients, each of which was repeated
    std::int64_t repeated = 0;  ///< behind these
    bool is_new = false;        ///< the last one, and nothing was left out behind the one before it
    bool told = false;
  };
  void see(Steps& own, bool repeated) const;

  std::map<OptimizerId, Steps> steps_;
  OptimizerId last_ = 0;  ///< that stepped
  std::int64_t last_step_ = 0;
};

}  // namespace ddpscope
