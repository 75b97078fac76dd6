#pragma once

#include <ddpscope/ddpscope.h>
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace benchmarks {

/// Perceptrons in loops other than that of one model and its optimizer.
class SmallNet {
 public:
  static constexpr std::int64_t kBatch = 32;
  static constexpr std::int64_t kWidth = 64;

  SmallNet()
      : net_(torch::nn::Linear(kWidth, kWidth), torch::nn::ReLU(),
             torch::nn::Linear(kWidth, kWidth), torch::nn::ReLU(),
             torch::nn::Linear(kWidth, kWidth)) {
    ddpscope::attach_diagnostics(net_);
  }
  torch::Tensor forward() { return net_->forward(torch::randn({kBatch, kWidth})); }
  torch::Tensor loss() { return forward().square().mean(); }
  std::vector<torch::Tensor> parameters() { return net_->parameters(); }
  void eval() { net_->eval(); }

 private:
  torch::nn::Sequential net_;
};

/// A search for hyperparameters: another model and optimizer each 50 steps.
class SearchTask {
 public:
  static constexpr std::size_t kSteps = 50;

  void step(std::size_t i) {
    if (i % kSteps == 0) {
      optimizer_.reset();
      net_ = std::make_unique<SmallNet>();
      optimizer_ = std::make_unique<torch::optim::Adam>(net_->parameters(), 1e-3);
    }
    optimizer_->zero_grad();
    const torch::Tensor loss = net_->loss();
    loss.backward();
    optimizer_->step();
    sum_ += loss.item<double>();
  }
  double sum() const { return sum_; }

 private:
  std::unique_ptr<SmallNet> net_;
  std::unique_ptr<torch::optim::Adam> optimizer_;
  double sum_ = 0;
};

/// A program that only infers: a step is a forward.
class InferTask {
 public:
  InferTask() { net_.eval(); }
  void step(std::size_t) {
    const torch::NoGradGuard no_grad;
    sum_ += net_.forward().sum().item<double>();
  }
  double sum() const { return sum_; }

 private:
  SmallNet net_;
  double sum_ = 0;
};

/// One that takes its gradients from autograd::grad() and updates by itself.
class GradTask {
 public:
  void step(std::size_t) {
    const torch::Tensor loss = net_.loss();
    const std::vector<torch::Tensor> parameters = net_.parameters();
    const auto gradients = torch::autograd::grad({loss}, parameters);
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].sub_(gradients[i] * 1e-3);
    sum_ += loss.item<double>();
  }
  double sum() const { return sum_; }

 private:
  SmallNet net_;
  double sum_ = 0;
};

}  // namespace benchmarks
