// Fits a line to noisy points with bare tensors, without a module. `--bug NAME` plants one of the
// mistakes marked BUG.
#include <ddpscope/ddpscope.h>
#include <torch/torch.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <vector>

#include "samples/support/arguments.h"

namespace tensors {

const samples::BugNames kBugs = {"forgotten-bias", "no-zero-grad"};

void train(const samples::Arguments& arguments) {
  torch::manual_seed(arguments.seed);
  const auto points = torch::rand({256, 3});
  const auto values = points.matmul(torch::tensor({{2.0F}, {-1.0F}, {0.5F}})) + 0.3;
  const auto targets = values + 0.05 * torch::randn({256, 1});

  auto weight = torch::randn({3, 1}, torch::requires_grad());
  auto bias = torch::zeros({1}, torch::requires_grad());
  const ddpscope::NamedTensors parameters = {{"weight", weight}, {"bias", bias}};
  if (arguments.diagnostics) ddpscope::attach_diagnostics(parameters);

  std::vector<torch::Tensor> trained = {weight};
  if (!arguments.has("forgotten-bias")) trained.push_back(bias);  // BUG
  torch::optim::SGD optimizer(trained, torch::optim::SGDOptions(0.2).momentum(0.5));
  for (std::int64_t step = 1; step <= arguments.steps; ++step) {
    if (!arguments.has("no-zero-grad")) optimizer.zero_grad();  // BUG
    const auto loss = torch::mse_loss(points.matmul(weight) + bias, targets);
    loss.backward();
    optimizer.step();
    if (step % 20 == 0) {
      std::printf("step %d: loss %.4f\n", static_cast<int>(step), loss.item<double>());
    }
  }
  std::cout << "weight " << weight.detach().flatten() << "\nbias " << bias.detach() << std::endl;
}

}  // namespace tensors

int main(int argc, char** argv) try {
  const auto arguments = samples::parse(argc, argv, tensors::kBugs, {.steps = 60});
  if (arguments.only_lists) return 0;
  torch::set_num_threads(1);
  tensors::train(arguments);
  return 0;
} catch (const std::exception& error) {
  std::cerr << "tensors: " << error.what() << "\n";
  return 2;
}
