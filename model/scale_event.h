#pragma once

#include <optional>

#include "model/tensor_info.h"

namespace ddpscope {

/// A limit divided by a norm, as they were when one tensor of one number was divided by another.
struct ClipQuotient {
  double limit = 0;
  double norm = 0;
  std::int64_t ranks = 1;  ///< of whose gradients the norm is
};

/// Gradients of leaves were multiplied in place by one factor, each after the other or as a list,
/// outside of optimizers; level values. Told when another factor follows, or else before the next
/// backward, step or `zero_grad`.
struct GradientsScaledEvent {
  Stamp at;
  std::optional<double> factor;  ///< none: a tensor that the host cannot read
  bool by_tensor = false;
  std::int64_t gradients = 0;
  TensorId first = 0;                    ///< the leaf of the first of them
  std::optional<ClipQuotient> quotient;  ///< the factor is it, or 1 where it is larger
};

/// The gradient of a leaf was multiplied by a number into a new tensor; level values, survey steps.
struct ScaledCopyEvent {
  Stamp at;
  TensorId gradient_of = 0;
  double factor = 1;
};

}  // namespace ddpscope
