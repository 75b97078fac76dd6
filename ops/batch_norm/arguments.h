#pragma once

#include <ddpscope/ops/sync_batch_norm.h>

namespace ddpscope::batch_norm {

struct RunningTensors {
  const at::Tensor& mean;
  const at::Tensor& variance;
};

/// Whether a model that nobody edits may be given it: on the CPU, for what runs on GPUs is new, and
/// of a dtype and layout that there are kernels for.
bool is_supported(const at::Tensor& input);

/// @throws c10::Error that names the argument, its shape, dtype and device.
void check_arguments(const at::Tensor& input, const RunningTensors& running,
                     const SyncBatchNormFuncOptions& options);

}  // namespace ddpscope::batch_norm
