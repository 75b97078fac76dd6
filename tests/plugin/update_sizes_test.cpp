// Parameters that a step changes by too little or far too much, and those that it rightly leaves.
#include <algorithm>

#include "tests/support/torch_test.h"

namespace ddpscope::test::update_sizes_test {
namespace {
using torch::nn::Embedding;
using torch::nn::Linear;
using torch::optim::SGD;
constexpr int kSteps = 300;

Options watched_in_full() {
  Options options = quiet();
  options.overhead = 1000;
  return options;
}

/// Layers with a sigmoid behind each, whose slope is a quarter at most.
struct DeepImpl : torch::nn::Module {
  explicit DeepImpl(int layers) {
    for (int i = 0; i < layers; ++i) stack->push_back(Linear(8, 8));
    register_module("stack", stack);
  }
  at::Tensor loss() {
    at::Tensor x = input();
    for (const auto& layer : *stack) x = torch::sigmoid(layer->as<Linear>()->forward(x));
    return x.square().mean();
  }
  torch::nn::ModuleList stack;
};
TORCH_MODULE(Deep);

std::vector<std::string> causes() {
  std::vector<std::string> all;
  for (const Finding& finding : findings()) {
    if (finding.id == "optim-update-size") all.push_back(text_fact(finding, "cause"));
  }
  return all;
}
}  // namespace

TEST_CASE("Updates of forty layers of sigmoids vanish before they reach the first") {
  Deep net(40);
  attach_diagnostics(net, watched_in_full());
  SGD optimizer(net->parameters(), 0.01);
  train(
      optimizer, [&] { return net->loss(); }, kSteps);
  const auto found = causes();
  REQUIRE_FALSE(found.empty());
  CHECK(std::ranges::all_of(found, [](const auto& cause) { return cause == "vanishing"; }));
}

TEST_CASE("Updates at a rate of 1 are far too large") {
  Deep net(2);
  attach_diagnostics(net, watched_in_full());
  SGD optimizer(net->parameters(), /*lr=*/1);
  train(
      optimizer,
      [&] {
        const at::Tensor x = torch::randn({5, 8});
        return (net->stack[0]->as<Linear>()->forward(x) - 3 * torch::randn({5, 8})).square().mean();
      },
      kSteps);
  const auto found = causes();
  CHECK(std::ranges::find(found, "exploding") != found.end());
}

TEST_CASE("Updates of a shallow network, a seldom word and a branch of zeros are silent") {
  Net net;
  Embedding words(100, 8);
  const at::Tensor branch = torch::zeros({8}, torch::requires_grad());
  attach_diagnostics(net, watched_in_full());
  std::vector<at::Tensor> parameters = net->parameters();
  parameters.push_back(words->weight);
  parameters.push_back(branch);
  SGD optimizer(parameters, 0.01);
  train(
      optimizer,
      [&] {
        const at::Tensor x = input() + words(torch::randint(3, {5})) * (1 + branch);
        return net->forward(x).square().mean();
      },
      kSteps);
  CHECK(causes().empty());
}

namespace {
/// Gradients that a built optimizer clears, and never steps with.
void clear_only(Net& net, torch::optim::Optimizer& optimizer) {
  for (int i = 0; i < 40; ++i) {
    optimizer.zero_grad();
    const at::Tensor loss = net->loss();
    loss.backward();
    CHECK(loss.item<float>() >= 0);
  }
}
}  // namespace

TEST_CASE("An optimizer that never steps is told, of those built before the attach too") {
  Net net;
  SGD optimizer(net->parameters(), 0.01);
  attach_diagnostics(net, quiet());
  clear_only(net, optimizer);
  CHECK(causes() == std::vector<std::string>{"never_stepped"});
}

TEST_CASE("A learning rate that falls below 0 is told") {
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  train(
      optimizer, [&] { return net->loss(); }, 10);
  CHECK(causes().empty());
  optimizer.param_groups()[0].options().set_lr(-0.01);
  train(
      optimizer, [&] { return net->loss(); }, 2);
  CHECK(causes() == std::vector<std::string>{"negative_rate"});
}

TEST_CASE("A step() that is called twice is told, not one with gradients that changed between") {
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  const auto steps = [&](auto&& between) {
    for (int i = 0; i < 10; ++i) {
      optimizer.zero_grad();
      net->loss().backward();
      optimizer.step();
      between();
      optimizer.step();
    }
  };
  steps([&] {
    for (const at::Tensor& parameter : net->parameters()) parameter.mutable_grad().mul_(0.5);
  });
  steps([&] {
    for (const at::Tensor& parameter : net->parameters()) {
      parameter.mutable_grad() = parameter.grad() * 0.5;
    }
  });
  CHECK(causes().empty());
  steps([] {});
  CHECK(causes() == std::vector<std::string>{"applied_twice"});
}

TEST_CASE("An optimizer with averages that is built anew for each step is told") {
  Net net;
  attach_diagnostics(net, quiet());
  for (int i = 0; i < 20; ++i) {
    torch::optim::Adam optimizer(net->parameters());
    net->loss().backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  CHECK(causes() == std::vector<std::string>{"state_lost"});
}

}  // namespace ddpscope::test::update_sizes_test
