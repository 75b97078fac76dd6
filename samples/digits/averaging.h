#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <vector>

#include "samples/digits/options.h"
#include "samples/support/process_group.h"

namespace digits {

/// Gives every process the weights and the running statistics of rank 0.
inline void broadcast_state(const samples::Group& group, const torch::nn::Module& net, Bug bug) {
  if (!group) return;
  torch::NoGradGuard guard;
  if (bug != Bug::kUnsyncedParameters) {  // BUG
    for (const auto& parameter : net.parameters()) samples::broadcast(group, parameter);
  }
  if (bug != Bug::kUnsyncedBuffers) {  // BUG
    for (const auto& buffer : net.buffers()) samples::broadcast(group, buffer);
  }
}

/// Replaces every gradient by its mean over the processes.
inline void average_gradients(const samples::Group& group, const torch::nn::Module& net, Bug bug) {
  if (!group) return;
  torch::NoGradGuard guard;
  std::map<std::vector<std::int64_t>, std::vector<torch::Tensor>> by_shape;
  for (const auto& parameter : net.parameters()) {
    torch::Tensor gradient = parameter.grad();
    if (!gradient.defined()) continue;
    by_shape[gradient.sizes().vec()].push_back(gradient);
    if (bug != Bug::kListedGradients) samples::add_over_ranks(group, gradient);
  }
  for (auto& [shape, gradients] : by_shape) {
    if (bug == Bug::kListedGradients) group->allreduce(gradients)->wait();  // BUG
    for (torch::Tensor& gradient : gradients) gradient.div_(group->getSize());
  }
}

}  // namespace digits
