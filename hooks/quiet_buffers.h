#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "model/tensor_info.h"

namespace ddpscope {

class Capture;

/// Follows the versions of the registered buffers of one root, to tell those that nothing writes.
class QuietBuffers {
 public:
  /// What the root registers now; what it registered before keeps its history.
  void follow(Capture& capture, const std::vector<at::Tensor>& registered);
  /// Tells each buffer once that has not been written for 16 steps.
  void step_ended(Capture& capture);
  /// Those that are alive.
  void append_to(std::vector<at::Tensor>& tensors) const;

 private:
  struct Buffer {
    c10::weak_intrusive_ptr<c10::TensorImpl> impl;
    TensorId id = 0;
    std::uint32_t version = 0;
    std::int64_t steps_at_write = 0;
    bool told = false;
  };

  std::vector<Buffer> buffers_;
};

}  // namespace ddpscope
