#pragma once

#include "ops/batch_norm/arguments.h"
#include "ops/batch_norm/device.h"

namespace ddpscope::batch_norm {

/// Of the group of the options where `exchanges`.
CallPtr make_call(const at::Tensor& input, const SyncBatchNormFuncOptions& options, bool exchanges,
                  std::int64_t number);

/// Whether a call in training has others to exchange with.
bool has_group(const SyncBatchNormFuncOptions& options);

/// A call whose statistics are known: what is left is to normalize.
struct Started {
  at::Tensor x;  ///< without gaps, part of the graph of the input
  CallPtr call;
  ForwardOnDevice on_device;
};

/// Measures, exchanges and moves the running values, all as far as the options ask for it.
/// @throws c10::Error as sync_batch_norm.
Started start(const at::Tensor& input, const RunningTensors& running,
              const SyncBatchNormFuncOptions& options);

}  // namespace ddpscope::batch_norm
