#pragma once

#include <string>

#include "model/tensor_info.h"

namespace ddpscope {

/// How large the finite elements of a tensor are, and how many are not finite.
struct ValueRange {
  std::int64_t elements = 0;
  std::int64_t nan_count = 0;
  std::int64_t inf_count = 0;
  double absmax = 0;  ///< of the finite elements

  bool is_finite() const { return nan_count == 0 && inf_count == 0; }
};

/// What a module's forward or an operator returned held NaN or Inf; level values. Modules are
/// looked at in every step, operators on survey steps, in the order in which they returned. The
/// module's event follows those of the operators inside it.
struct NonfiniteOutputEvent {
  Stamp at;
  ModuleId module = 0;
  std::string op;  ///< empty: the forward of `module` as a whole
  TensorInfo output;
  ValueRange values;
  bool inputs_known = true;  ///< an input could be gone already, or lie on another device
  ValueRange inputs;         ///< all of them added up
  /// The first input, or parameter or buffer of the module, that was not finite and that no
  /// operator computed; 0: none.
  TensorId source = 0;
  ValueRange source_values;
};

/// The root of a backward, where it is one number that the CPU can read; level values.
struct LossEvent {
  Stamp at;
  TensorId loss = 0;
  double value = 0;
};

/// The gradient that arrived at a leaf held NaN or Inf; level values, every step.
struct NonfiniteGradientEvent {
  Stamp at;
  TensorId tensor = 0;
  ValueRange values;
};

/// A node of backward returned NaN or Inf; on survey steps and armed ones, in the order of nodes.
struct NonfiniteNodeEvent {
  Stamp at;
  std::string node;
  TensorId made = 0;    ///< what the node's operator returned in forward; 0: not known
  ValueRange incoming;  ///< gradients, all of them added up
  ValueRange returned;
};

/// An operator read values at the edge of its domain, on a survey step; its result requires grad.
struct RiskyInputEvent {
  Stamp at;
  std::string op;
  ModuleId module = 0;
  TensorId output = 0;
  std::string rule;  ///< log, sqrt, reciprocal, division, power, arc, exp or epsilon_lost
  std::string dtype;
  std::int64_t elements = 0;
  std::int64_t offending_count = 0;
  double input_min = 0;
  double input_absmin = 0;
  double epsilon = 0;  ///< the constant that was lost; rule epsilon_lost
};

/// The largest finite element that a module returned in float16; level values, every step.
struct HalfOutputEvent {
  Stamp at;
  ModuleId module = 0;
  double absmax = 0;
};

/// One pass over a gradient that arrived at a leaf; level values. All gradients in the first 64
/// cycles, then each in its turn.
struct GradientValuesEvent {
  Stamp at;
  TensorId tensor = 0;
  ValueRange values;
  double sum_of_squares = 0;  ///< of the finite elements
  std::int64_t zero_count = 0;
  std::string dtype;
};

}  // namespace ddpscope
