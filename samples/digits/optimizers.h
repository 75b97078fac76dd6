#pragma once

#include <torch/torch.h>

#include <memory>
#include <utility>
#include <vector>

#include "samples/digits/net.h"

namespace digits {

using Optimizers = std::vector<std::unique_ptr<torch::optim::SGD>>;

inline torch::optim::SGDOptions sgd_options(double rate = 0.05) {
  return torch::optim::SGDOptions(rate).momentum(0.9);
}

inline double rate_of(int rank, Bug bug) {
  if (bug == Bug::kRateByRank) return 0.05 * (rank + 1);  // BUG
  return 0.05;
}

/// The trunk with weight decay, the head without.
inline std::vector<torch::optim::OptimizerParamGroup> parameter_groups(Net& net, int rank,
                                                                       Bug bug) {
  auto decaying = std::make_unique<torch::optim::SGDOptions>(sgd_options(rate_of(rank, bug)));
  decaying->weight_decay(1e-4);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(net->trunk->parameters(), std::move(decaying));
  if (bug == Bug::kForgottenGroup) return groups;  // BUG
  groups.emplace_back(net->head->parameters());
  return groups;
}

inline Optimizers make_optimizers(Net& net, int rank, Bug bug) {
  Optimizers optimizers;
  const bool one_each = bug == Bug::kHalfZeroGrad || bug == Bug::kEmptyOptimizer;
  if (one_each) {
    for (const auto& parameters : {net->trunk->parameters(), net->head->parameters()}) {
      optimizers.push_back(std::make_unique<torch::optim::SGD>(parameters, sgd_options()));
    }
  } else {
    optimizers.push_back(
        std::make_unique<torch::optim::SGD>(parameter_groups(net, rank, bug), sgd_options()));
  }
  if (bug == Bug::kEmptyOptimizer) {
    for (auto& parameter : net->head->parameters()) parameter.set_requires_grad(false);  // BUG
  }
  return optimizers;
}

inline void clear_gradients(Net& net, Optimizers& optimizers, Bug bug) {
  if (bug == Bug::kNoZeroGrad) return;  // BUG
  if (bug == Bug::kHalfZeroGrad) {
    optimizers.front()->zero_grad();  // BUG
    return;
  }
  net->zero_grad();
}

}  // namespace digits
