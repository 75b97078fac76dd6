// Tells three kinds of noisy measurements apart, with a loss scale and clipping by hand as programs
// in half precision have them. `--bug NAME` plants one of the mistakes marked BUG.
#include <ddpscope/ddpscope.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>

#include "samples/support/arguments.h"

namespace clipping {

constexpr std::int64_t kKinds = 3;
constexpr std::int64_t kFeatures = 6;
constexpr std::int64_t kBatch = 32;
constexpr std::int64_t kStepsPerEpoch = 15;
constexpr double kMaxNorm = 5;

const samples::BugNames kBugs = {"clip-before-unscale", "mask-after-division", "overflow-in-half",
                                 "tiny-limit", "zero-rate"};

struct ClassifierImpl : torch::nn::Module {
  ClassifierImpl() {
    in = register_module("in", torch::nn::Linear(kFeatures, 16));
    out = register_module("out", torch::nn::Linear(16, kKinds));
  }
  torch::Tensor forward(const torch::Tensor& features) {
    return out(torch::tanh(in(features.to(in->weight.dtype())))).to(torch::kFloat);
  }

  torch::nn::Linear in{nullptr}, out{nullptr};
};
TORCH_MODULE(Classifier);

struct Batch {
  torch::Tensor features;
  torch::Tensor kinds;
};

class Trainer {
 public:
  explicit Trainer(const samples::Arguments& arguments)
      : arguments_(arguments), optimizer_(classifier_->parameters(), options()) {
    if (arguments.has("overflow-in-half")) {
      classifier_->to(torch::kHalf);
      scale_ = 0x1p22;  // BUG overflow-in-half
    }
    if (arguments.diagnostics) ddpscope::attach_diagnostics(classifier_);
  }

  void train() {
    for (std::int64_t step = 1; step <= arguments_.steps; ++step) {
      const double loss = train_step(next_batch(step));
      if (step % 20 == 0) std::printf("step %d: loss %.4f\n", static_cast<int>(step), loss);
    }
  }

 private:
  torch::optim::SGDOptions options() const {
    return {arguments_.has("zero-rate") ? 0 : 0.05};  // BUG
  }

  /// The last batch of an epoch is a small one, and may lack a kind.
  Batch next_batch(std::int64_t step) const {
    const bool is_last = step % kStepsPerEpoch == 0;
    const auto kinds = torch::randint(is_last ? kKinds - 1 : kKinds, {is_last ? 8 : kBatch});
    const auto noise = torch::randn({kinds.size(0), kFeatures});
    return {.features = centers_.index_select(0, kinds) + noise, .kinds = kinds};
  }

  double train_step(const Batch& batch) {
    optimizer_.zero_grad();
    const auto loss = torch::cross_entropy_loss(classifier_(batch.features), batch.kinds);
    (loss * scale_).backward();
    if (arguments_.has("clip-before-unscale")) clip();  // BUG
    unscale();
    balance(batch.kinds);
    if (!arguments_.has("clip-before-unscale")) clip();  // BUG
    if (arguments_.has("mask-after-division") || all_finite()) optimizer_.step();
    return loss.item<double>();
  }

  void unscale() {
    for (const auto& parameter : classifier_->parameters()) parameter.grad().div_(scale_);
  }

  /// The scores of a kind learn the faster the rarer it is in the batch.
  void balance(const torch::Tensor& kinds) {
    const auto counts = torch::bincount(kinds, {}, kKinds).to(torch::kFloat);
    const auto share = static_cast<double>(kinds.size(0)) / kKinds;
    auto weights = share / counts.clamp_min(1) * counts.gt(0);
    if (arguments_.has("mask-after-division")) {
      weights = share / counts * counts.gt(0);  // BUG mask-after-division
    }
    classifier_->out->bias.grad().mul_(weights);
  }

  void clip() {
    const double limit = arguments_.has("tiny-limit") ? 0.01 : kMaxNorm;  // BUG
    torch::nn::utils::clip_grad_norm_(classifier_->parameters(), limit);
  }

  bool all_finite() const {
    for (const auto& parameter : classifier_->parameters()) {
      if (!std::isfinite(parameter.grad().sum().item<double>())) return false;
    }
    return true;
  }

  samples::Arguments arguments_;
  Classifier classifier_;
  torch::optim::SGD optimizer_;
  torch::Tensor centers_ = torch::randn({kKinds, kFeatures});
  double scale_ = 65536;
};

}  // namespace clipping

int main(int argc, char** argv) try {
  const auto arguments = samples::parse(argc, argv, clipping::kBugs, {.steps = 420});
  if (arguments.only_lists) return 0;
  torch::set_num_threads(1);
  torch::manual_seed(arguments.seed);
  clipping::Trainer(arguments).train();
  return 0;
} catch (const std::exception& error) {
  std::cerr << "clipping: " << error.what() << "\n";
  return 2;
}
