// Learns the value of each move on a ring of places, one of which pays: Q-learning with a target
// network that follows the trained one every few steps; Adam. `--bug NAME` plants one of the
// mistakes marked BUG.
#include <ddpscope/ddpscope.h>
#include <torch/torch.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>

#include "samples/support/arguments.h"

namespace q_values {

constexpr std::int64_t kPlaces = 12;
constexpr std::int64_t kMoves = 3;  // back, stay, on
constexpr std::int64_t kBatch = 64;
constexpr std::int64_t kSyncEvery = 10;
constexpr double kDiscount = 0.9;

const samples::BugNames kBugs = {"target-is-online", "best-in-a-column"};

struct ValuesImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& places) {
    return out(torch::relu(in(torch::one_hot(places, kPlaces).to(torch::kFloat))));
  }
  torch::nn::Linear in = register_module("in", torch::nn::Linear(kPlaces, 32));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(32, kMoves));
};
TORCH_MODULE(Values);

class Learner {
 public:
  explicit Learner(const samples::Arguments& arguments)
      : keeps_dimension_(arguments.has("best-in-a-column")),
        optimizer_(online_->parameters(), torch::optim::AdamOptions(5e-3)) {
    if (arguments.has("target-is-online")) {
      target_ = Values(std::make_shared<ValuesImpl>(*online_));  // BUG target-is-online
    }
    follow();
    if (!arguments.diagnostics) return;
    ddpscope::attach_diagnostics(online_).name("online");
    ddpscope::attach_diagnostics(target_).name("target");
  }

  double step(std::int64_t number) {
    if (number % kSyncEvery == 0) follow();
    const auto places = torch::randint(kPlaces, {kBatch});
    const auto moves = torch::randint(kMoves, {kBatch});
    const auto next = torch::remainder(places + moves - 1 + kPlaces, kPlaces);
    const auto values = online_(places).gather(1, moves.unsqueeze(1)).squeeze(1);
    const auto loss = torch::mse_loss(values, worth(next));
    optimizer_.zero_grad();
    loss.backward();
    optimizer_.step();
    return loss.item<double>();
  }

 private:
  /// What arriving there pays, and what the target network expects to come.
  torch::Tensor worth(const torch::Tensor& places) {
    const torch::NoGradGuard guard;
    const auto best = std::get<0>(target_(places).max(1, keeps_dimension_));  // BUG
    return places.eq(0).to(torch::kFloat) + kDiscount * best;
  }

  void follow() {
    const torch::NoGradGuard guard;
    const auto from = online_->parameters();
    auto to = target_->parameters();
    for (std::size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
  }

  bool keeps_dimension_;
  Values online_;
  Values target_;
  torch::optim::Adam optimizer_;
};

void train(const samples::Arguments& arguments) {
  Learner learner(arguments);
  for (std::int64_t step = 1; step <= arguments.steps; ++step) {
    const double loss = learner.step(step);
    if (step % 20 > 0) continue;
    std::printf("step %d: loss %.4f\n", static_cast<int>(step), loss);
  }
}

}  // namespace q_values

int main(int argc, char** argv) try {
  const auto arguments = samples::parse(argc, argv, q_values::kBugs, {.steps = 300});
  if (arguments.only_lists) return 0;
  torch::set_num_threads(1);
  torch::manual_seed(arguments.seed);
  q_values::train(arguments);
  return 0;
} catch (const std::exception& error) {
  std::cerr << "q_values: " << error.what() << "\n";
  return 2;
}
