#pragma once

#include <string>
#include <vector>

#include "checks/run_state.h"

namespace ddpscope {

/// The gradients that arrived with NaN or Inf and were not cleared since.
class NonfiniteGradients {
 public:
  struct Found {
    TensorId tensor = 0;
    ValueRange values;
    std::int64_t backward = 0;
  };

  void on_backward();
  void on_gradient(const GradientEvent& event);
  void on_gradient_values(const GradientValuesEvent& event);
  void on_nonfinite_gradient(const NonfiniteGradientEvent& event);
  void clear() { found_.clear(); }

  /// Whether gradients of the last backward were read.
  bool values_seen() const { return values_seen_; }
  /// Whether the sum of their squares can be more than their type holds.
  bool may_overflow() const { return may_overflow_; }
  /// Those of the optimizers that hold `tensor`, in the order of backward.
  std::vector<Found> beside(TensorId tensor, const RunState& state) const;
  /// The paths of the first three.
  static std::vector<std::string> first_names(const std::vector<Found>& found,
                                              const RunState& state);
  /// `enc.0.bias was non-finite (1 of 64 elements)`
  static std::string text(const std::vector<Found>& found, const RunState& state);

 private:
  std::int64_t backwards_ = 0;
  bool values_seen_ = false;
  bool may_overflow_ = false;
  std::vector<Found> found_;
};

}  // namespace ddpscope
