#pragma once

#include "ops/batch_norm/passes.h"
#include "ops/device/place.h"

/// Forward and backward on a device, without a graph: launches are queued on its current stream,
/// and nothing waits unless the communicator does.
namespace ddpscope::batch_norm {

/// What a forward in training moves; undefined where there is nothing to move.
struct RunningUpdate {
  at::Tensor mean, variance, counter;
  double momentum = 0;  ///< NaN: 1 / counter
};

/// Measures x, exchanges, and leaves the records of all ranks in the call.
/// @throws c10::Error, also of an earlier call in which ranks turned out to differ.
void measure_on_device(const at::Tensor& x, Call& call, const device::Place& place);

/// What a forward does with its statistics; nothing on the CPU, where it is done before.
struct ForwardOnDevice {
  double eps = 0;
  RunningUpdate running = {};
};
/// With the records of the call, which it turns into statistics, or with its statistics; those of
/// `tensors` are not read.
at::Tensor normalize_on_device(const NormTensors& tensors, const at::Tensor& bias,
                               const ForwardOnDevice& on_device, Call& call,
                               const device::Place& place);

/// As `backward_of`; gradients of weight and bias are of the dtype of the weight.
Gradients backward_on_device(const NormTensors& tensors, const at::Tensor& dy, const Call& call,
                             const device::Place& place, bool needs_input);

/// Statistics that are constants, as a call on a device keeps them.
void keep_constants(const at::Tensor& statistics, Call& call);

}  // namespace ddpscope::batch_norm
