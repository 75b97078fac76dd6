#pragma once

#include "values/tensor_values.h"

namespace ddpscope {

/// How large the finite elements of a tensor are, and how many are not finite.
struct Extremes {
  double absmax = 0;  ///< of the finite elements; 0 if there are none
  std::int64_t nan_count = 0;
  std::int64_t inf_count = 0;

  bool is_finite() const { return nan_count == 0 && inf_count == 0; }
  friend bool operator==(const Extremes&, const Extremes&) = default;
};

/// A part of what `measure_values` tells, bound by memory: one pass where all elements are finite,
/// a second, slow one where not. Thread: any. Throws nothing, allocates nothing.
Extremes measure_extremes(const TensorData& tensor, ValuePath path = ValuePath::kBest);

}  // namespace ddpscope
