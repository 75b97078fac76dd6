// Learns a landscape from points of a map: how high a point lies, in which of four regions, and
// whether it is under water. One network, three losses; Adam. `--bug NAME` plants one of the
// mistakes marked BUG.
#include <ddpscope/ddpscope.h>
#include <torch/torch.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <string>

#include "samples/support/arguments.h"

namespace losses {

constexpr std::int64_t kPoints = 64;
constexpr std::int64_t kWidth = 32;
constexpr std::int64_t kRegions = 4;

const samples::BugNames kBugs = {"broadcast",     "double-softmax",    "labels-from-one",
                                 "probabilities", "nan-probabilities", "other-dimension"};

struct Points {
  torch::Tensor places;  // [N, 2]
  torch::Tensor height;  // [N]
  torch::Tensor region;  // [N], from 0
  torch::Tensor wet;     // [N, 1]
};

Points draw() {
  const auto places = 2 * torch::rand({kPoints, 2}) - 1;
  const auto x = places.select(1, 0);
  const auto y = places.select(1, 1);
  const auto height = torch::sin(3 * x) * torch::cos(2 * y);
  const auto region = x.gt(0).to(torch::kLong) + 2 * y.gt(0).to(torch::kLong);
  return {places, height, region, height.lt(0).to(torch::kFloat).unsqueeze(1)};
}

struct Seen {
  torch::Tensor height;  // [N, 1]
  torch::Tensor region;  // [N, 4]
  torch::Tensor wet;     // [N, 1]
};

struct LandscapeImpl : torch::nn::Module {
  explicit LandscapeImpl(std::string bug) : bug(std::move(bug)) {}

  Seen forward(const torch::Tensor& places) {
    const auto hidden = torch::tanh(second(torch::tanh(first(places))));
    auto regions = region(hidden);
    if (bug == "double-softmax") regions = torch::softmax(regions, 1);  // BUG double-softmax
    auto under_water = wet(hidden);
    if (bug == "nan-probabilities") under_water = normalized(under_water);
    if (bug != "probabilities") under_water = torch::sigmoid(under_water);  // BUG probabilities
    return {height(hidden), regions, under_water};
  }

  /// Of each point over what it has, which here is one number.
  static torch::Tensor normalized(const torch::Tensor& x) {
    return (x - x.mean(1, true)) / x.std(1, /*unbiased=*/true, true);  // BUG nan-probabilities
  }

  std::string bug;
  torch::nn::Linear first = register_module("first", torch::nn::Linear(2, kWidth));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(kWidth, kWidth));
  torch::nn::Linear height = register_module("height", torch::nn::Linear(kWidth, 1));
  torch::nn::Linear region = register_module("region", torch::nn::Linear(kWidth, kRegions));
  torch::nn::Linear wet = register_module("wet", torch::nn::Linear(kWidth, 1));
};
TORCH_MODULE(Landscape);

torch::Tensor loss_of(const Seen& seen, const Points& points, const samples::Arguments& arguments) {
  auto height = points.height;
  if (!arguments.has("broadcast")) height = height.unsqueeze(1);  // BUG broadcast
  auto region = points.region;
  if (arguments.has("labels-from-one")) region = region + 1;              // BUG labels-from-one
  const std::int64_t regions = arguments.has("other-dimension") ? 0 : 1;  // BUG other-dimension
  return torch::mse_loss(seen.height, height) +
         torch::nll_loss(torch::log_softmax(seen.region, regions), region) +
         torch::binary_cross_entropy(seen.wet, points.wet);
}

void train(const samples::Arguments& arguments) {
  Landscape net(arguments.bug);
  if (arguments.diagnostics) ddpscope::attach_diagnostics(net);
  torch::optim::Adam optimizer(net->parameters(), torch::optim::AdamOptions(1e-2));
  for (std::int64_t step = 1; step <= arguments.steps; ++step) {
    const Points points = draw();
    const auto loss = loss_of(net(points.places), points, arguments);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step % 20 > 0) continue;
    std::printf("step %d: loss %.4f\n", static_cast<int>(step), loss.item<double>());
  }
}

}  // namespace losses

int main(int argc, char** argv) try {
  const auto arguments = samples::parse(argc, argv, losses::kBugs, {.steps = 300});
  if (arguments.only_lists) return 0;
  torch::set_num_threads(1);
  torch::manual_seed(arguments.seed);
  losses::train(arguments);
  return 0;
} catch (const std::exception& error) {
  std::cerr << "losses: " << error.what() << "\n";
  return 2;
}
