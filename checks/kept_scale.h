#pragma once

#include <cstdint>
#include <map>

#include "checks/clip_finder.h"
#include "checks/loss_scale.h"

namespace ddpscope {

/// Whether the limit is one of scaled gradients: it is closer to their norms than to the true one.
bool is_scaled_limit(double limit, double scale, double true_norm);

/// What clip-before-unscale says of a clip; `order`: as far as it was seen.
Finding clip_before_unscale(const Clip& clip, double scale, const std::string& order,
                            const RunState& state);

/// Steps with gradients that were clipped with a loss scale in them which nothing takes off: one
/// that is a power of two and was seen to change, as no weight of a loss does. By the norm of what
/// arrived: where a copy was divided, the clip is given a far smaller one.
class KeptScale {
 public:
  void on_backward(const LossScale& scale);
  void on_gradient_values(const GradientValuesEvent& event) {
    squares_[event.tensor] = event.sum_of_squares;
  }
  void on_dropped();
  /// Whether it is so in this step and was in another one.
  bool lasts(const Clip& clip, double scale);

 private:
  std::map<TensorId, double> squares_;  ///< of what arrived in the last backward
  double last_ = 0;                     ///< 0: none that may be one
  bool is_adapted_ = false;
  std::int64_t steps_ = 0;
};

}  // namespace ddpscope
