#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "benchmarks/watched.h"
#include "samples/chars/model.h"

namespace benchmarks {

/// The network of samples/chars with its optimizer, on made-up text.
class CharsTask {
 public:
  static constexpr std::int64_t kBatch = 16;

  CharsTask() : sizes_{.vocabulary = 96}, net_(sizes_, ""), optimizer_(net_->parameters(), 1e-3) {
    for (int i = 0; i < 16; ++i) {
      texts_.push_back(torch::randint(sizes_.vocabulary, {kBatch, sizes_.context + 2}));
    }
    watch(net_);
  }

  void step(std::size_t i) {
    const torch::Tensor& text = texts_[i % texts_.size()];
    if (clears_gradients) optimizer_.zero_grad();
    const chars::Logits logits = net_(text.slice(1, 0, sizes_.context));
    const torch::Tensor loss = loss_of(logits.next, text.slice(1, 1, sizes_.context + 1)) +
                               0.5 * loss_of(logits.after, text.slice(1, 2));
    loss.backward();
    optimizer_.step();
    sum_ += loss.item<double>();
  }

  double sum() const { return sum_; }

 private:
  torch::Tensor loss_of(const torch::Tensor& logits, const torch::Tensor& characters) const {
    return torch::cross_entropy_loss(logits.reshape({-1, sizes_.vocabulary}),
                                     characters.reshape({-1}));
  }

  chars::Sizes sizes_;
  chars::CharModel net_;
  torch::optim::Adam optimizer_;
  std::vector<torch::Tensor> texts_;
  double sum_ = 0;
};

/// Two perceptrons and two Adams in turn, as in samples/gan.
class GanTask {
 public:
  static constexpr std::int64_t kBatch = 64;

  GanTask()
      : generator_(perceptron(4, 2)),
        critic_(perceptron(2, 1)),
        generator_optimizer_(generator_->parameters(), 1e-3),
        critic_optimizer_(critic_->parameters(), 1e-3) {
    watch(generator_);
    watch(critic_);
  }

  void step(std::size_t) {
    critic_optimizer_.zero_grad();
    const torch::Tensor fakes = generator_->forward(torch::randn({kBatch, 4}));
    const torch::Tensor loss = critic_->forward(fakes.detach()).mean() -
                               critic_->forward(torch::randn({kBatch, 2})).mean();
    loss.backward();
    critic_optimizer_.step();
    if (clears_gradients) generator_optimizer_.zero_grad();
    critic_->forward(fakes).mean().neg().backward();
    generator_optimizer_.step();
    sum_ += loss.item<double>();
  }

  double sum() const { return sum_; }

 private:
  static torch::nn::Sequential perceptron(std::int64_t in, std::int64_t out) {
    return torch::nn::Sequential(torch::nn::Linear(in, 64), torch::nn::ReLU(),
                                 torch::nn::Linear(64, 64), torch::nn::ReLU(),
                                 torch::nn::Linear(64, out));
  }

  torch::nn::Sequential generator_, critic_;
  torch::optim::Adam generator_optimizer_, critic_optimizer_;
  double sum_ = 0;
};

/// Two 3x3 convolutions with batch norm and a way around them; He et al., "Deep Residual Learning
/// for Image Recognition", CVPR 2016.
struct ResidualBlockImpl : torch::nn::Module {
  ResidualBlockImpl(std::int64_t in, std::int64_t out, std::int64_t stride) {
    using torch::nn::Conv2dOptions;
    const auto narrow = Conv2dOptions(out, out, 3).padding(1).bias(false);
    const auto first = Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(false);
    conv1 = register_module("conv1", torch::nn::Conv2d(first));
    norm1 = register_module("norm1", torch::nn::BatchNorm2d(out));
    conv2 = register_module("conv2", torch::nn::Conv2d(narrow));
    norm2 = register_module("norm2", torch::nn::BatchNorm2d(out));
    if (stride == 1 && in == out) return;
    around = register_module(
        "around", torch::nn::Sequential(
                      torch::nn::Conv2d(Conv2dOptions(in, out, 1).stride(stride).bias(false)),
                      torch::nn::BatchNorm2d(out)));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor inside = norm2(conv2(torch::relu(norm1(conv1(x)))));
    return torch::relu(inside + (around.is_empty() ? x : around->forward(x)));
  }
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::BatchNorm2d norm1{nullptr}, norm2{nullptr};
  torch::nn::Sequential around{nullptr};
};
TORCH_MODULE(ResidualBlock);

/// A network of the size of ResNet-18 (11.2 million parameters) on 32 x 32 images.
template <c10::DeviceType kDevice = c10::kCPU, std::int64_t kBatch = 4>
class ResnetTask {
 public:
  ResnetTask() : optimizer_(make_optimizer()) {
    for (int i = 0; i < 8; ++i) {
      batches_.push_back({torch::randn({kBatch, 3, 32, 32}).to(kDevice),
                          torch::randint(10, {kBatch}).to(kDevice)});
    }
    watch(net_);
  }

  void step(std::size_t i) {
    const auto& [images, labels] = batches_[i % batches_.size()];
    if (clears_gradients) optimizer_.zero_grad();
    const torch::Tensor loss = torch::cross_entropy_loss(net_->forward(images), labels);
    loss.backward();
    optimizer_.step();
    sum_ += loss.item<double>();
  }

  double sum() const { return sum_; }

 private:
  torch::optim::SGD make_optimizer() {
    using torch::nn::Conv2d;
    net_->push_back(Conv2d(torch::nn::Conv2dOptions(3, 64, 3).padding(1).bias(false)));
    net_->push_back(torch::nn::BatchNorm2d(64));
    net_->push_back(torch::nn::ReLU());
    std::int64_t in = 64;
    for (const std::int64_t out : {64, 128, 256, 512}) {
      net_->push_back(ResidualBlock(in, out, out == 64 ? 1 : 2));
      net_->push_back(ResidualBlock(out, out, 1));
      in = out;
    }
    net_->push_back(torch::nn::AdaptiveAvgPool2d(1));
    net_->push_back(torch::nn::Flatten());
    net_->push_back(torch::nn::Linear(512, 10));
    net_->to(kDevice);
    return torch::optim::SGD(net_->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  }

  torch::nn::Sequential net_;
  torch::optim::SGD optimizer_;
  std::vector<std::pair<torch::Tensor, torch::Tensor>> batches_;
  double sum_ = 0;
};

}  // namespace benchmarks
