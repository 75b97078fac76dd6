#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "samples/chars/model.h"
#include "samples/support/dump.h"
#include "samples/support/process_group.h"

namespace chars {

constexpr double kLearningRate = 3e-3;

/// Matrices with weight decay, biases and norms without.
inline std::unique_ptr<torch::optim::AdamW> make_optimizer(const CharModel& model,
                                                           const std::string& bug) {
  std::vector<torch::Tensor> decaying, others;
  for (const auto& parameter : model->parameters()) {
    (parameter.dim() > 1 ? decaying : others).push_back(parameter);
  }
  auto options = torch::optim::AdamWOptions(kLearningRate).betas({0.9, 0.95}).weight_decay(0.1);
  auto plain = std::make_unique<torch::optim::AdamWOptions>(options);
  plain->weight_decay(0);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(decaying);
  if (bug != "forgotten-group") groups.emplace_back(others, std::move(plain));  // BUG
  return std::make_unique<torch::optim::AdamW>(groups, options);
}

/// Rises over the first tenth of the steps, then falls to a tenth like a cosine.
inline void set_learning_rate(torch::optim::AdamW& optimizer, std::int64_t step,
                              std::int64_t steps) {
  const double rising = std::max<double>(1, steps / 10.0);
  const double progress = static_cast<double>(step) / static_cast<double>(steps);
  const double falling = 0.55 + 0.45 * std::cos(std::numbers::pi * progress);
  const double rate = kLearningRate * std::min((step + 1) / rising, falling);
  for (auto& group : optimizer.param_groups()) {
    static_cast<torch::optim::AdamWOptions&>(group.options()).lr(rate);
  }
}

inline void broadcast_parameters(const samples::Group& group, const CharModel& model) {
  if (!group) return;
  torch::NoGradGuard guard;
  for (const auto& parameter : model->parameters()) samples::broadcast(group, parameter);
}

/// Replaces every gradient by its mean over the processes.
inline void average_gradients(const samples::Group& group, const CharModel& model) {
  if (!group) return;
  torch::NoGradGuard guard;
  for (const auto& parameter : model->parameters()) {
    torch::Tensor gradient = parameter.grad();
    if (!gradient.defined()) continue;
    samples::add_over_ranks(group, gradient);
    gradient.div_(group->getSize());
  }
}

inline void write_dump(const std::filesystem::path& file, const CharModel& model,
                       const torch::optim::AdamW& optimizer, const std::vector<float>& losses) {
  samples::Dump dump(file);
  dump.add(*model, losses);
  for (const auto& parameter : model->parameters()) {
    const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
    if (found == optimizer.state().end()) continue;
    const auto& state = static_cast<torch::optim::AdamWParamState&>(*found->second);
    dump.add("exp_avg " + std::to_string(state.step()), state.exp_avg());
    dump.add("exp_avg_sq", state.exp_avg_sq());
  }
  dump.close();
}

}  // namespace chars
