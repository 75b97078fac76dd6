#pragma once

#include <ATen/core/Tensor.h>

#include "hooks/tensor_registry.h"
#include "hooks/write_log.h"

namespace ddpscope {

/// Programs that update their parameters themselves change gradients before it, as by averaging
/// or clipping, and clear them after it: only the order of the writes tells these apart.
class UpdateOrder {
 public:
  /// What is written from here on belongs to the backward.
  static void see_backward(const WriteLog& writes) noexcept;
  /// Whether the leaf was written since its last gradient arrived, and its gradient, the same
  /// tensor still, not after the first such write. False where the log does not tell.
  static bool gradient_outlived_update(const WriteLog& writes, const TensorSlot& slot,
                                       const at::Tensor& leaf);
};

}  // namespace ddpscope
