#pragma once

#include <ATen/core/Tensor.h>

#include "hooks/tensor_registry.h"
#include "hooks/write_log.h"

namespace ddpscope {

class Capture;

/// Programs that update their parameters themselves change gradients before it, as by averaging
/// or clipping, and clear them after it: only the order of the writes tells these apart.
class UpdateOrder {
 public:
  /// What is written from here on belongs to the backward.
  static void see_backward(const WriteLog& writes) noexcept;
  /// A gradient was added to a leaf in the backward in progress.
  DDPSCOPE_HOT static void gradient_arrived(TensorSlot& slot, std::int64_t backwards) noexcept;
  /// Whether the leaf that got the last gradient of the last backward has been written since: what
  /// is summed up now is no gradient. Where hooks did not see it arrive, what was said last.
  static bool leaf_was_written(Capture& capture);
  /// Whether the leaf was written since its last gradient arrived, and its gradient, the same
  /// tensor still, not after the first such write. False where the log does not tell.
  static bool gradient_outlived_update(const WriteLog& writes, const TensorSlot& slot,
                                       const at::Tensor& leaf);
};

}  // namespace ddpscope
