#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checks/op_trace.h"

namespace ddpscope {

/// An operator after which values of trainable parameters go on to the loss without a gradient
/// path.
struct GradientCut {
  std::string cause;  ///< detach, grad_mode_off, integer_op, host_value or leaf_loss
  std::string op;
  std::string path;
  ModuleId module = 0;  ///< of that path; 0: not known
  std::vector<std::int64_t> shape;
  StackId stack = 0;
  std::string dropped_op = {};  ///< made one number of the same values, which entered no loss
  StackId dropped_stack = 0;
  std::vector<TensorId> starved;  ///< the parameters
  StackId backward = 0;           ///< that began at a leaf
  bool by_view = false;           ///< the operator reads one tensor
  bool without_path = false;      ///< no operator leads from them to that leaf
  bool is_rebound = false;        ///< what cuts made a tensor that took the parameter's place
  bool if_idle = false;           ///< only where their optimizer steps without any gradient
};

/// The cut of a backward that began at leaves: what the first operator cut, or else all of them.
std::optional<GradientCut> find_leaf_loss(const OpTrace& trace, const BackwardEvent& event,
                                          const std::vector<TensorId>& leaves);

/// The cuts between these leaves and what the roots were computed from, in the order in which the
/// operators ended. Each leaf stands at the first one on its way. What runs with grad mode off
/// counts in the thread of the backward only.
/// A parameter that the program replaced by a new leaf, as in `w = (w - g).detach()`, is cut only
/// `if_idle`.
std::vector<GradientCut> find_cuts(const OpTrace& trace, const BackwardEvent& event,
                                   const std::vector<TensorId>& leaves, bool if_idle = false);

/// Cuts by the same operator of a module as one; so is all that runs with grad mode off.
std::vector<GradientCut> merged(const std::vector<GradientCut>& cuts);

}  // namespace ddpscope
