// Two networks with an optimizer each: a generator learns to place points on a circle, a critic to
// tell them from real ones in several steps per step of the generator. `--bug NAME` plants one of
// the mistakes marked BUG.
#include <ddpscope/ddpscope.h>
#include <torch/torch.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <numbers>

#include "samples/support/arguments.h"

namespace gan {

constexpr int kCriticSteps = 3;
constexpr std::int64_t kBatch = 64;
constexpr std::int64_t kNoise = 4;

const samples::BugNames kBugs = {"critic-not-zeroed",  "generator-not-optimized",
                                 "critic-steps-first", "critic-steps-first-sgd",
                                 "shared-fakes",       "penalty-without-graph"};

struct GeneratorImpl : torch::nn::Module {
  GeneratorImpl() {
    hidden = register_module("hidden", torch::nn::Linear(kNoise, 32));
    norm = register_module("norm", torch::nn::BatchNorm1d(32));
    out = register_module("out", torch::nn::Linear(32, 2));
  }
  torch::Tensor forward(const torch::Tensor& noise) {
    return out(torch::relu(norm(hidden(noise))));
  }
  torch::nn::Linear hidden{nullptr}, out{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};
TORCH_MODULE(Generator);

struct CriticImpl : torch::nn::Module {
  CriticImpl() {
    layers = register_module(
        "layers", torch::nn::Sequential(torch::nn::Linear(2, 32), torch::nn::LeakyReLU(),
                                        torch::nn::Linear(32, 32), torch::nn::LeakyReLU(),
                                        torch::nn::Linear(32, 1)));
  }
  torch::Tensor forward(const torch::Tensor& points) {
    return layers->forward(points);  // the critic's layers
  }
  torch::nn::Sequential layers{nullptr};
};
TORCH_MODULE(Critic);

torch::Tensor real_points() {
  const auto angle = 2 * std::numbers::pi * torch::rand({kBatch});
  return torch::stack({angle.cos(), angle.sin()}, 1) + 0.05 * torch::randn({kBatch, 2});
}

torch::Tensor loss_of(const torch::Tensor& logits, double is_real) {
  return torch::binary_cross_entropy_with_logits(logits, torch::full_like(logits, is_real));
}

class Duel {
 public:
  explicit Duel(const samples::Arguments& arguments)
      : arguments_(arguments),
        generator_optimizer_(arguments.has("generator-not-optimized")
                                 ? critic_->parameters()  // BUG
                                 : generator_->parameters(),
                             options()),
        critic_optimizer_(make_critic_optimizer()) {
    if (!arguments.diagnostics) return;
    ddpscope::attach_diagnostics(generator_);
    ddpscope::attach_diagnostics(critic_);
  }

  void train() {
    for (std::int64_t step = 1; step <= arguments_.steps; ++step) {
      double critic_loss = 0;
      for (int i = 0; i < kCriticSteps; ++i) critic_loss = train_critic(make_fakes().detach());
      const double generator_loss = train_generator();
      if (step % 20 > 0) continue;
      std::printf("step %d: critic %.3f, generator %.3f\n", static_cast<int>(step), critic_loss,
                  generator_loss);
    }
  }

 private:
  static torch::optim::AdamOptions options() {
    return torch::optim::AdamOptions(2e-3).betas({0.5, 0.9});
  }

  std::unique_ptr<torch::optim::Optimizer> make_critic_optimizer() {
    if (arguments_.has("critic-steps-first-sgd")) {
      return std::make_unique<torch::optim::SGD>(critic_->parameters(), 0.05);
    }
    return std::make_unique<torch::optim::Adam>(critic_->parameters(), options());
  }

  torch::Tensor make_fakes() { return generator_(torch::randn({kBatch, kNoise})); }

  torch::Tensor slope_of(const torch::Tensor& logits, const torch::Tensor& points) {
    const bool has_graph = !arguments_.has("penalty-without-graph");
    return torch::autograd::grad({logits.sum()}, {points}, {}, /*retain_graph=*/true,
                                 /*create_graph=*/has_graph)[0];  // BUG penalty-without-graph
  }

  double train_critic(const torch::Tensor& fakes) {
    if (!arguments_.has("critic-not-zeroed")) critic_optimizer_->zero_grad();  // BUG
    const auto points = real_points().requires_grad_(true);
    const auto logits = critic_(points);
    auto loss = loss_of(logits, 1) + loss_of(critic_(fakes), 0);
    loss = loss + 0.1 * slope_of(logits, points).square().sum(1).mean();  // the penalty
    loss.backward();                                                      // backward of the critic
    critic_optimizer_->step();                                            // step of the critic
    return loss.item<double>();
  }

  double train_generator() {
    const bool critic_first =
        arguments_.has("critic-steps-first") || arguments_.has("critic-steps-first-sgd");
    generator_optimizer_.zero_grad();
    const auto fakes = make_fakes();
    if (arguments_.has("shared-fakes")) train_critic(fakes);  // BUG
    const auto loss = loss_of(critic_(fakes), 1);
    if (critic_first) train_critic(fakes.detach());  // BUG
    loss.backward();                                 // backward of the generator
    generator_optimizer_.step();
    return loss.item<double>();
  }

  samples::Arguments arguments_;
  Generator generator_;
  Critic critic_;
  torch::optim::Adam generator_optimizer_;
  std::unique_ptr<torch::optim::Optimizer> critic_optimizer_;
};

}  // namespace gan

int main(int argc, char** argv) try {
  const auto arguments = samples::parse(argc, argv, gan::kBugs, {.steps = 200});
  if (arguments.only_lists) return 0;
  torch::set_num_threads(1);
  torch::manual_seed(arguments.seed);
  gan::Duel(arguments).train();
  return 0;
} catch (const std::exception& error) {
  std::cerr << "gan: " << error.what() << "\n";
  return 2;
}
