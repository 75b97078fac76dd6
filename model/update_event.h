#pragma once

#include <optional>
#include <vector>

#include "model/tensor_info.h"

namespace ddpscope {

/// What one step changed of one parameter.
struct ParameterUpdate {
  TensorId tensor = 0;
  double update_ratio = 0;        ///< 2-norm of the change over that of the parameter, of a sample
  bool size_is_zero = false;      ///< the sample held zeros alone
  std::optional<bool> unchanged;  ///< no bit differs, compared in full; none: not compared
  double gradient_norm = 0;       ///< estimated from a sample
  double lr = 0;                  ///< NaN: not known
};

/// Sent after a step and before its `OptimizerStepEvent`, beyond the 100th; level values. Each
/// member comes once in 16 steps.
struct ParameterUpdatesEvent {
  Stamp at;
  OptimizerId optimizer = 0;
  std::vector<ParameterUpdate> members;
};

}  // namespace ddpscope
