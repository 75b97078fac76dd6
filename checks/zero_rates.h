#pragma once

#include <map>
#include <optional>

#include "checks/run_state.h"
#include "model/finding.h"

namespace ddpscope {

/// Optimizers of LibTorch that have stepped with a learning rate of 0 in all groups from the start,
/// or with one below 0.
class ZeroRates {
 public:
  /// A finding where such steps change nothing, and no other optimizer changes anything, or where
  /// they go up the slope; once.
  std::optional<Finding> on(const OptimizerStepEvent& event, const RunState& state);
  /// Whether this optimizer was told.
  bool told(OptimizerId optimizer) const;
  void clear();

 private:
  std::optional<Finding> negative(const OptimizerState& optimizer, const RunState& state);

  struct Steps {
    std::int64_t watched = 0;
    std::int64_t first = 0;  ///< the step
    bool has_rate = false;   ///< at some time
    bool told = false;
  };
  std::map<OptimizerId, Steps> steps_;
};

}  // namespace ddpscope
