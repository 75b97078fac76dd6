#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/autograd_event.h"
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

/// Whose forward ran an operator. Where hooks rested then, only the leaves tell: of the operator
/// itself, and of the nearest ones around it that read a leaf.
struct MadeIn {
  ModuleId module = 0;  ///< 0: not known
  ModuleId before = 0;  ///< then that of the nearest operator before it, and after it
  ModuleId after = 0;
  TensorId leaf = 0;  ///< a leaf that the operator read; 0: none, or its module is known
  TensorId leaf_before = 0;
  TensorId leaf_after = 0;
};

/// Where NaN or Inf came from that reached the root of a backward; level values. Sent at the end of
/// that backward, before the optimizer steps. What autograd saved tells it, and the leaves.
struct NonfiniteOutputEvent {
  Stamp at;
  MadeIn place;
  std::string op;     ///< the operator that returned them first; empty: nothing that autograd knows
  TensorInfo output;  ///< of it; id 0: no longer there
  ValueRange values;
  bool inputs_known = false;  ///< what the operator read is still there
  ValueRange inputs;          ///< all of them added up
  bool lost_operand = false;  ///< it read a tensor that needs no gradient, and that nobody kept
  bool was_zero = false;      ///< its result alone tells that it read 0
  /// The parameter, buffer or other leaf that the operator read and that was not finite; 0: none.
  TensorId source = 0;
  ValueRange source_values;
  std::string source_dtype = {};
  std::optional<Doing> made;  ///< where the operator ran
  /// Operators after it that could be the first as well: what they read is gone. Those nearest to
  /// the root come first.
  std::vector<std::string> candidates;
  std::int64_t victims = 0;  ///< results after it that are not finite either
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
  bool by_hook = false;  ///< all nodes returned finite ones: a hook of the program's own made it
};

/// An optimizer begins to step with such gradients, in a cycle without passes over values. The
/// loss was finite.
struct SpoiltStepEvent {
  Stamp at;
  TensorId last_finite = 0;  ///< whose gradient came before the first of them; 0: none
  std::vector<NonfiniteGradientEvent> gradients;  ///< in the order in which leaves are reached
};

/// The program itself wrote such gradients: backward had left finite ones. Told where they are
/// about to be averaged over ranks, or else where their optimizer begins to step.
struct GradientsSpoiltEvent {
  Stamp at;
  bool before_average = false;
  std::vector<NonfiniteGradientEvent> gradients;  ///< the one that was written first comes first
  std::optional<Write> first;                     ///< of the writes to that one since backward
  std::optional<Write> last;
  std::int64_t writes = 0;  ///< of those that are remembered
};

/// Such gradients were finite when their optimizer began to step: the program repaired them.
struct GradientsRepairedEvent {
  Stamp at;
  std::vector<TensorId> tensors;
};

/// The first node of a backward that returned NaN or Inf; level values. What it was given was
/// finite, and so was the root.
struct NonfiniteNodeEvent {
  Stamp at;
  std::string node;
  std::string op;  ///< the operator that made the node
  MadeIn place;
  TensorId made = 0;  ///< what the operator returned; 0: not known, as outside of survey steps
  ValueRange returned;
  std::optional<double> incoming_absmax;  ///< of the gradients it was given
  bool saved_nan = false;                 ///< what the operator saved had NaN: forward made it
  bool saved_known = false;  ///< the smallest element that the operator saved for backward
  double saved_min = 0;
  std::optional<Doing> made_by;
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
  double input_max = 0;
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
