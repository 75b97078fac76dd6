#pragma once

#include <map>
#include <optional>
#include <unordered_map>

#include "checks/run_state.h"

namespace ddpscope {

/// Gradients that one factor made from their norm was applied to.
struct Clip {
  TensorId first = 0;
  double factor = 1;
  double limit = 0;
  double norm = 0;
  std::int64_t ranks = 1;  ///< of whose gradients the norm is
};

/// Tells clipping from other scalings of gradients, for most gradients of an optimizer's group.
/// A division of a limit by a norm that was seen is certain. A factor of the program's own is one
/// of a clip where, times the norm of the gradients as they arrived, it is the same limit twice and
/// the factor is not. Powers of two are loss scales.
class ClipFinder {
 public:
  void on_gradient_values(const GradientValuesEvent& event);
  void on_backward();
  void on_dropped();
  std::optional<Clip> find(const GradientsScaledEvent& event, const RunState& state);

 private:
  struct Seen {
    double factor = 0;
    double limit = 0;
    bool confirmed = false;
  };
  std::optional<double> norm_of(const GradientsScaledEvent& event, const RunState& state) const;
  std::optional<Clip> find_by_limit(const GradientsScaledEvent& event, std::optional<double> norm);

  std::unordered_map<TensorId, double> squares_;  ///< of the gradients that arrived last
  std::map<TensorId, double> scaled_by_;          ///< since then, by the first gradient
  std::map<TensorId, Seen> seen_;
};

/// The gradients of this cycle in the group of the optimizer that holds `tensor`; where none does,
/// all of them.
std::int64_t gradients_beside(TensorId tensor, const RunState& state);
/// Whether the step is one of the optimizer that holds `tensor`; of any, where none does.
bool is_step_of(const OptimizerStepEvent& event, TensorId tensor, const RunState& state);
/// Whether the same optimizers hold both.
bool have_same_owners(TensorId a, TensorId b, const RunState& state);
/// A finding at the root of the model that holds the tensor.
Finding about_gradients_of(TensorId tensor, const RunState& state);

}  // namespace ddpscope
