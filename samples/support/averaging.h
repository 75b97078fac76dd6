#pragma once

#include <torch/torch.h>

#include "samples/support/process_group.h"

namespace samples {

/// All processes go on with the parameters of the first.
inline void broadcast_parameters(const Group& group, const torch::nn::Module& net) {
  if (!group) return;
  torch::NoGradGuard guard;
  for (const auto& parameter : net.parameters()) broadcast(group, parameter);
}

/// Replaces every gradient by its mean over the processes.
inline void average_gradients(const Group& group, const torch::nn::Module& net) {
  if (!group) return;
  torch::NoGradGuard guard;
  for (const auto& parameter : net.parameters()) {
    add_over_ranks(group, parameter.grad());
    parameter.grad().div_(group->getSize());
  }
}

}  // namespace samples
