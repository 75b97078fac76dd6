#pragma once

#include <torch/optim.h>

#include <algorithm>
#include <vector>

namespace ddpscope {

/// Of the first group that has some.
inline std::vector<at::Tensor>& first_members(torch::optim::Optimizer& optimizer) {
  const auto has_members = [](const auto& group) { return !group.params().empty(); };
  return std::ranges::find_if(optimizer.param_groups(), has_members)->params();
}

inline std::vector<at::Tensor> all_members(torch::optim::Optimizer& optimizer) {
  std::vector<at::Tensor> all;
  for (const auto& group : optimizer.param_groups()) {
    all.insert(all.end(), group.params().begin(), group.params().end());
  }
  return all;
}

}  // namespace ddpscope
