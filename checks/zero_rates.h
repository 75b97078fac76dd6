#pragma once

#include <map>
#include <optional>
#include <string_view>

#include "checks/check.h"
#include "checks/run_state.h"
#include "model/finding.h"

namespace ddpscope {

/// Optimizers of LibTorch that have stepped with a learning rate of 0 in all groups from the start,
/// or at the end, or with one below 0.
class ZeroRates {
 public:
  /// A finding where such steps change nothing, and no other optimizer changes anything, or where
  /// they go up the slope; once.
  std::optional<Finding> on(const OptimizerStepEvent& event, const RunState& state);
  /// At the end of the program: where the rate fell to 0, and nothing was trained any more.
  void at_exit(const RunState& state, Findings& findings) const;
  /// Samples of updates told it: `no_effect`.
  void said(std::string_view cause) { is_said_ |= cause == "no_effect"; }
  /// Whether this optimizer was told.
  bool told(OptimizerId optimizer) const;
  void clear();

 private:
  std::optional<Finding> negative(const OptimizerState& optimizer, const RunState& state);

  struct Steps {
    std::int64_t watched = 0;
    std::int64_t first = 0;          ///< the step
    bool has_rate = false;           ///< at some time
    std::int64_t at_zero = 0;        ///< watched in a row, since it had one
    std::int64_t first_at_zero = 0;  ///< the step
    std::int64_t last = 0;
    bool told = false;
  };
  std::map<OptimizerId, Steps> steps_;
  bool is_said_ = false;
};

}  // namespace ddpscope
