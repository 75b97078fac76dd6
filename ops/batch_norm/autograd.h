#pragma once

#include "ops/batch_norm/device.h"
#include "ops/batch_norm/passes.h"

namespace ddpscope::batch_norm {

/// `backward_of` or `backward_on_device`.
Gradients gradients_of(const NormTensors& tensors, const at::Tensor& dy, const Call& call,
                       bool needs_input);

/// `normalize_tensor` with the statistics of the call, as a node of the graph whose backward
/// exchanges over its group.
at::Tensor normalize_in_graph(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                              const CallPtr& call, const ForwardOnDevice& on_device);

}  // namespace ddpscope::batch_norm
