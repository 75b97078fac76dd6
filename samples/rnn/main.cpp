// Predicts the next value of many noisy waves, a few values per step. What the model remembers is
// carried from step to step. `--bug NAME` plants one of the mistakes marked BUG.
#include <ddpscope/ddpscope.h>
#include <torch/torch.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <numbers>
#include <vector>

#include "samples/support/arguments.h"

namespace rnn {

constexpr std::int64_t kWaves = 16;
constexpr std::int64_t kWidth = 24;
constexpr int kValuesPerStep = 6;

const samples::BugNames kBugs = {"state-carried", "state-carried-retained", "losses-kept"};

/// Its units fade at fixed rates, so that only what enters them is learned.
struct PredictorImpl : torch::nn::Module {
  PredictorImpl() {
    in = register_module("in", torch::nn::Linear(1, kWidth));
    out = register_module("out", torch::nn::Linear(kWidth, 1));
    fading = register_buffer("fading", torch::linspace(0.2, 0.95, kWidth));
  }

  torch::Tensor remember(const torch::Tensor& state, const torch::Tensor& value) {
    const auto kept = fading * state;  // what is kept
    return kept + torch::tanh(in(value));
  }
  torch::Tensor predict(const torch::Tensor& state) { return out(state); }

  torch::nn::Linear in{nullptr}, out{nullptr};
  torch::Tensor fading;
};
TORCH_MODULE(Predictor);

class Waves {
 public:
  torch::Tensor next() {
    angles_ += 0.2;
    return angles_.sin() + 0.02 * torch::randn({kWaves, 1});
  }

 private:
  torch::Tensor angles_ = 2 * std::numbers::pi * torch::rand({kWaves, 1});
};

class Trainer {
 public:
  explicit Trainer(const samples::Arguments& arguments)
      : arguments_(arguments), optimizer_(model_->parameters(), torch::optim::AdamOptions(5e-3)) {
    if (arguments.diagnostics) ddpscope::attach_diagnostics(model_);
  }

  void train() {
    for (std::int64_t step = 1; step <= arguments_.steps; ++step) {
      train_step();
      if (step % 20 == 0) report(step);
    }
  }

 private:
  void train_step() {
    torch::Tensor loss = torch::zeros({});
    auto state = state_;
    for (int i = 0; i < kValuesPerStep; ++i) {
      state = model_->remember(state, value_);
      value_ = waves_.next();
      loss = loss + torch::mse_loss(model_->predict(state), value_) / kValuesPerStep;
    }
    optimizer_.zero_grad();
    const bool keep_graph = arguments_.has("state-carried-retained");
    loss.backward({}, keep_graph);  // backward
    optimizer_.step();

    const bool with_history = keep_graph || arguments_.has("state-carried");
    state_ = with_history ? state : state.detach();                           // BUG
    losses_.push_back(arguments_.has("losses-kept") ? loss : loss.detach());  // BUG
  }

  void report(std::int64_t step) {
    const auto mean = torch::stack(losses_).mean().item<double>();
    std::printf("step %d: loss %.4f\n", static_cast<int>(step), mean);
  }

  samples::Arguments arguments_;
  Predictor model_;
  torch::optim::Adam optimizer_;
  Waves waves_;
  torch::Tensor value_ = waves_.next();
  torch::Tensor state_ = torch::zeros({kWaves, kWidth});
  std::vector<torch::Tensor> losses_;
};

}  // namespace rnn

int main(int argc, char** argv) try {
  const auto arguments = samples::parse(argc, argv, rnn::kBugs, {.steps = 200});
  if (arguments.only_lists) return 0;
  torch::set_num_threads(1);
  torch::manual_seed(arguments.seed);
  rnn::Trainer(arguments).train();
  return 0;
} catch (const std::exception& error) {
  std::cerr << "rnn: " << error.what() << "\n";
  return 2;
}
