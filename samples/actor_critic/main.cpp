// Learns to balance a pole: one body with a head for the actions and a head for the value, and an
// optimizer for each part. `--bug NAME` plants one of the mistakes marked BUG.
#include <ddpscope/ddpscope.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <iostream>
#include <vector>

#include "samples/support/arguments.h"

namespace actor_critic {

constexpr int kLongestEpisode = 100;
constexpr double kDiscount = 0.98;

const samples::BugNames kBugs = {"value-not-in-loss", "one-optimizer-zeroed", "values-in-a-column"};

/// A cart that is pushed left or right so that the pole on it stays up.
class Pole {
 public:
  torch::Tensor reset() {
    place_ = speed_ = turn_ = 0;
    angle_ = torch::rand({1}).item<double>() * 0.1 - 0.05;
    return state();
  }

  /// False once the pole has fallen or the cart has left the track.
  bool push(bool right) {
    constexpr double kTime = 0.02, kGravity = 9.8, kMass = 1.1, kPole = 0.05;
    const double pull = ((right ? 10 : -10) + kPole * turn_ * turn_ * std::sin(angle_)) / kMass;
    const double bend = kGravity * std::sin(angle_) - std::cos(angle_) * pull;
    const double turning = bend / (2.0 / 3 - kPole * std::cos(angle_) * std::cos(angle_) / kMass);
    place_ += kTime * speed_;
    speed_ += kTime * (pull - kPole * turning * std::cos(angle_) / kMass);
    angle_ += kTime * turn_;
    turn_ += kTime * turning;
    return std::abs(place_) < 2.4 && std::abs(angle_) < 0.21;
  }

  torch::Tensor state() const {
    return torch::tensor({place_, speed_, angle_, turn_}, torch::kFloat32);
  }

 private:
  double place_ = 0, speed_ = 0, angle_ = 0, turn_ = 0;
};

struct ActorCriticImpl : torch::nn::Module {
  ActorCriticImpl() {
    body = register_module("body", torch::nn::Linear(4, 64));
    actor = register_module("actor", torch::nn::Linear(64, 2));
    critic = register_module("critic", torch::nn::Linear(64, 1));
  }
  torch::nn::Linear body{nullptr}, actor{nullptr}, critic{nullptr};
};
TORCH_MODULE(ActorCritic);

struct Episode {
  std::vector<torch::Tensor> log_probabilities;
  std::vector<torch::Tensor> values;
};

class Trainer {
 public:
  explicit Trainer(const samples::Arguments& arguments)
      : arguments_(arguments),
        actor_optimizer_(actor_parameters(), torch::optim::AdamOptions(1e-2)),
        critic_optimizer_(model_->critic->parameters(), torch::optim::AdamOptions(2e-2)) {
    if (arguments.diagnostics) ddpscope::attach_diagnostics(model_);
  }

  void train() {
    std::size_t moves = 0;
    for (std::int64_t step = 1; step <= arguments_.steps; ++step) {
      const Episode episode = play();
      learn(episode);
      moves += episode.values.size();
      if (step % 20 > 0) continue;
      std::printf("episode %d: %.1f moves\n", static_cast<int>(step), moves / 20.0);
      moves = 0;
    }
  }

 private:
  std::vector<torch::Tensor> actor_parameters() const {
    auto parameters = model_->body->parameters();
    for (const auto& parameter : model_->actor->parameters()) parameters.push_back(parameter);
    return parameters;
  }

  Episode play() {
    Episode episode;
    Pole pole;
    auto state = pole.reset();
    for (int i = 0; i < kLongestEpisode; ++i) {
      const auto features = torch::relu(model_->body(state));
      const auto log_probabilities = torch::log_softmax(model_->actor(features), 0);
      const auto action = log_probabilities.exp().multinomial(1).item<std::int64_t>();
      episode.log_probabilities.push_back(log_probabilities[action]);
      const auto value = model_->critic(features);
      const bool in_column = arguments_.has("values-in-a-column");
      episode.values.push_back(in_column ? value : value.squeeze());  // BUG values-in-a-column
      if (!pole.push(action == 1)) break;
      state = pole.state();
    }
    return episode;
  }

  void learn(const Episode& episode) {
    std::vector<float> returns(episode.values.size());
    double sum = 0;
    for (std::size_t i = returns.size(); i-- > 0;) {
      sum = 1 + kDiscount * sum;
      returns[i] = static_cast<float>(sum / 20);
    }
    const auto values = torch::stack(episode.values);
    const auto advantage = torch::tensor(returns).view_as(values) - values;
    const auto weights = advantage.detach();  // loss of the actor
    auto loss = -(torch::stack(episode.log_probabilities) * weights).mean();
    if (!arguments_.has("value-not-in-loss")) loss = loss + advantage.pow(2).mean();  // BUG

    actor_optimizer_.zero_grad();
    if (!arguments_.has("one-optimizer-zeroed")) critic_optimizer_.zero_grad();  // BUG
    loss.backward();
    actor_optimizer_.step();
    critic_optimizer_.step();
  }

  samples::Arguments arguments_;
  ActorCritic model_;
  torch::optim::Adam actor_optimizer_;
  torch::optim::Adam critic_optimizer_;
};

}  // namespace actor_critic

int main(int argc, char** argv) try {
  const auto arguments = samples::parse(argc, argv, actor_critic::kBugs, {.steps = 100});
  if (arguments.only_lists) return 0;
  torch::set_num_threads(1);
  torch::manual_seed(arguments.seed);
  actor_critic::Trainer(arguments).train();
  return 0;
} catch (const std::exception& error) {
  std::cerr << "actor_critic: " << error.what() << "\n";
  return 2;
}
