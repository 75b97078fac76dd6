#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "model/hot_code.h"
#include "model/tensor_info.h"

namespace ddpscope {

class Capture;

/// One loss over class labels that is the mean over its valid targets.
struct MeanLoss {
  const char* op = "";
  ModuleId module = 0;
  std::int64_t classes = 0;
  std::int64_t targets = 0;
};

/// Remembers a loss of this thread until `tell_loss_targets`, or a loss of a later step.
void add_mean_loss(const Capture& capture, const MeanLoss& loss) noexcept;

/// Sends what this thread remembers, and forgets it; a backward from `roots` is about to begin.
DDPSCOPE_HOT void tell_loss_targets(Capture& capture, const std::vector<at::Tensor>& roots);

}  // namespace ddpscope
