#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/event.h"

namespace ddpscope {

/// The loss and the norm of the gradients of each cycle, where its events tell them: level values.
class StepValues {
 public:
  struct Told {
    std::optional<double> loss;           ///< the last one of the cycle
    std::optional<double> gradient_norm;  ///< of what its one backward gave all parameters
  };

  void saw(const Event& event);
  /// Of the cycle that ends; the next one begins.
  Told take(std::int64_t cycle);

 private:
  void enter(std::int64_t cycle);

  std::int64_t cycle_ = 0;
  std::optional<double> loss_;
  std::vector<TensorId> received_;
  std::vector<TensorId> measured_;
  double sum_of_squares_ = 0;
  bool is_finite_ = true;
};

}  // namespace ddpscope
