#pragma once

#include <vector>

#include "model/tensor_info.h"

namespace ddpscope {

/// The begin of an outermost backward. The lists are filled on survey steps only.
struct BackwardEvent {
  Stamp at;
  bool surveyed = false;
  bool accumulates = true;
  bool keep_graph = false;
  std::vector<TensorId> reached_leaves;
  std::vector<TensorId> alive_outputs;
};

struct BackwardEndEvent {
  Stamp at;
  bool threw = false;
};

/// What a parameter's gradient was just before a new one was added to it.
enum class GradientBefore : std::uint8_t {
  kUndefined,
  kReset,  ///< changed since the last accumulation or step by something else, or another tensor
  kZero,   ///< unchanged and all zero
  kKept,   ///< unchanged and not known to be zero
};

/// One `AccumulateGrad` of a leaf.
struct GradientEvent {
  Stamp at;
  TensorId tensor = 0;
  GradientBefore before = GradientBefore::kUndefined;
  bool defined = true;  ///< the incoming gradient is a tensor
};

}  // namespace ddpscope
