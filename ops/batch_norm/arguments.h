#pragma once

#include <ddpscope/ops/sync_batch_norm.h>

namespace ddpscope::batch_norm {

struct RunningTensors {
  const at::Tensor& mean;
  const at::Tensor& variance;
};

/// Whether there are kernels for its device, dtype and layout.
bool is_supported(const at::Tensor& input);

/// @throws c10::Error that names the argument, its shape, dtype and device.
void check_arguments(const at::Tensor& input, const RunningTensors& running,
                     const SyncBatchNormFuncOptions& options);

}  // namespace ddpscope::batch_norm
