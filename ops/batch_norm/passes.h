#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "ops/batch_norm/call.h"
#include "ops/batch_norm/exchange.h"

/// Forward and backward on tensors, without a graph. Tensors over the batch are without gaps;
/// `statistics` is Double, (2, C): means and 1 / sqrt(variance + eps).
namespace ddpscope::batch_norm {

/// Of this rank's values.
Moments measure_tensor(const at::Tensor& x);

/// Per channel, in memory of the CPU.
std::vector<double> in_double(const at::Tensor& numbers);

struct NormTensors {
  at::Tensor x;
  at::Tensor weight;  ///< undefined: 1
  at::Tensor statistics;
};

at::Tensor normalize_tensor(const NormTensors& tensors, const at::Tensor& bias);

struct Gradients {
  at::Tensor input;   ///< undefined unless asked for
  at::Tensor weight;  ///< Double, of this rank
  at::Tensor bias;    ///< likewise
  /// Double, (4, C): the sums of dy and of dy * (x - mean), of this rank and of all.
  at::Tensor sums;
};

/// Ranks exchange their sums, whether or not the gradient of the input is needed here: it may be on
/// another one. `dy` has the layout of x.
Gradients backward_of(const NormTensors& tensors, const at::Tensor& dy, const Call& call,
                      bool needs_input);

}  // namespace ddpscope::batch_norm
