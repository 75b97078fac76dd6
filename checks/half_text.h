#pragma once

#include <optional>

#include "checks/half_series.h"
#include "checks/run_state.h"
#include "checks/subtree.h"
#include "model/finding.h"

namespace ddpscope {

/// Outputs of a module that come near the end of float16, or will.
Finding about_overflow(ModuleId id, const HalfSeries& series,
                       const std::optional<HalfSeries::Forecast>& forecast, const RunState& state);

/// Gradients of these parameters that float16 flushes to zero. `loss`: at most, where nothing is
/// left of any; else 0.
Finding about_underflow(const TensorGroup& group, const HalfGradients& gradients, double loss);

}  // namespace ddpscope
