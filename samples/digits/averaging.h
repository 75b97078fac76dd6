#pragma once

#include <torch/torch.h>

#include "samples/support/process_group.h"

namespace digits {

/// Gives every process the weights and the running statistics of rank 0.
inline void broadcast_state(const samples::Group& group, const torch::nn::Module& net) {
  if (!group) return;
  torch::NoGradGuard guard;
  for (const auto& parameter : net.parameters()) samples::broadcast(group, parameter);
  for (const auto& buffer : net.buffers()) samples::broadcast(group, buffer);
}

/// Replaces every gradient by its mean over the processes.
inline void average_gradients(const samples::Group& group, const torch::nn::Module& net) {
  if (!group) return;
  torch::NoGradGuard guard;
  for (const auto& parameter : net.parameters()) {
    torch::Tensor gradient = parameter.grad();
    if (!gradient.defined()) continue;
    samples::add_over_ranks(group, gradient);
    gradient.div_(group->getSize());
  }
}

}  // namespace digits
