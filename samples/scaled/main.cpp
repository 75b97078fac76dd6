// Trains a classifier in float16, with a scaled loss and clipped gradients. The scale starts too
// high, and the steps whose gradients overflow are skipped until it fits. `--bug NAME` plants one
// of the mistakes marked BUG.
#include <ddpscope/ops.h>
#include <torch/torch.h>

#include <cstdio>
#include <exception>
#include <iostream>

#include "samples/support/arguments.h"

namespace scaled {

constexpr std::int64_t kKinds = 3;
constexpr std::int64_t kFeatures = 6;
constexpr std::int64_t kBatch = 32;
constexpr double kMaxNorm = 0.5;

const samples::BugNames kBugs = {"clip-before-unscale"};

class Trainer {
 public:
  explicit Trainer(const samples::Arguments& arguments) : arguments_(arguments) {
    network_->to(torch::kHalf);
  }

  void train() {
    int skipped = 0;
    double first_loss = 0, loss = 0;
    for (std::int64_t step = 1; step <= arguments_.steps; ++step) {
      optimizer_.zero_grad();
      const auto kinds = torch::randint(kKinds, {kBatch});
      const auto features = centers_.index_select(0, kinds) + torch::randn({kBatch, kFeatures});
      const auto scores = network_->forward(features.to(torch::kHalf)).to(torch::kFloat);
      const auto mean = torch::cross_entropy_loss(scores, kinds);
      loss = mean.item<double>();
      if (step == 1) first_loss = loss;
      scaler_.scale(mean).backward();
      if (arguments_.has("clip-before-unscale")) {
        ddpscope::clip_grad_norm_(network_->parameters(), kMaxNorm);  // BUG
      }
      const auto clipped = scaler_.unscale_and_clip_(network_->parameters(), kMaxNorm);
      skipped += !scaler_.step(optimizer_);
      scaler_.update();
      if (step % 10 == 0 || clipped.found_inf.item<float>() != 0) tell(step, clipped);
    }
    std::printf("loss from %.4f to %.4f, %d of %d steps skipped\n", first_loss, loss, skipped,
                static_cast<int>(arguments_.steps));
  }

 private:
  void tell(std::int64_t step, const ddpscope::ClipResult& clipped) const {
    std::printf("step %d: norm %.4f, coefficient %.4f, next scale %.0f\n", static_cast<int>(step),
                clipped.total_norm_value(), clipped.coefficient.item<double>(),
                scaler_.state().scale);
  }

  samples::Arguments arguments_;
  torch::nn::Sequential network_ = torch::nn::Sequential(
      torch::nn::Linear(kFeatures, 16), torch::nn::Tanh(), torch::nn::Linear(16, kKinds));
  torch::optim::SGD optimizer_{network_->parameters(), /*lr=*/0.1};
  ddpscope::GradScaler scaler_{{.init_scale = 0x1p22, .growth_interval = 100}};
  torch::Tensor centers_ = 2 * torch::randn({kKinds, kFeatures});
};

}  // namespace scaled

int main(int argc, char** argv) try {
  const auto arguments = samples::parse(argc, argv, scaled::kBugs, {.steps = 60});
  if (arguments.only_lists) return 0;
  torch::set_num_threads(1);
  torch::manual_seed(arguments.seed);
  scaled::Trainer(arguments).train();
  return 0;
} catch (const std::exception& error) {
  std::cerr << "scaled: " << error.what() << "\n";
  return 2;
}
