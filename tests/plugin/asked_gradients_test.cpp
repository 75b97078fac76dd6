// Networks that are differentiated with respect to inputs which stay the same in each step.
#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
using torch::autograd::grad;
using torch::nn::Linear;
using torch::nn::Sequential;
using torch::nn::Tanh;

Sequential network() { return Sequential(Linear(2, 8), Tanh(), Linear(8, 1)); }

at::Tensor derivative(const at::Tensor& of, const at::Tensor& by) {
  return grad({of}, {by}, {torch::ones_like(of)}, /*retain_graph=*/true, /*create_graph=*/true)[0];
}

void train_with_penalty(bool has_graph) {
  Sequential net = network();
  attach_diagnostics(net, quiet());
  torch::optim::Adam optimizer(net->parameters(), 0.001);
  train(optimizer, [&] {
    const auto points = torch::rand({16, 2}).requires_grad_(true);
    const auto value = net->forward(points);
    const auto slope = grad({value.sum()}, {points}, {}, /*retain_graph=*/true, has_graph)[0];
    return value.square().mean() + 10 * (slope.norm(2, 1) - 1).square().mean();
  });
}
}  // namespace

TEST_CASE("Points at which a network is differentiated are silent") {
  Sequential net = network();
  attach_diagnostics(net, quiet());
  torch::optim::Adam optimizer(net->parameters(), 0.001);
  const auto points = torch::rand({16, 2}).requires_grad_(true);
  train(optimizer, [&] {
    const auto slope = derivative(net->forward(points), points).select(1, 0);
    return (derivative(slope, points) + 1).square().mean();
  });
  check_silent();
}

TEST_CASE("Batches of points at which a network is differentiated are silent") {
  Sequential net = network();
  attach_diagnostics(net, quiet());
  torch::optim::Adam optimizer(net->parameters(), 0.001);
  const auto points = torch::rand({16, 2}).requires_grad_(true);
  std::int64_t batch = 0;
  train(optimizer, [&] {
    const auto part = points.slice(0, batch % 4 * 4, batch % 4 * 4 + 4);
    ++batch;
    return (derivative(net->forward(part), part) + 1).square().mean();
  });
  check_silent();
}

TEST_CASE("A layer that no module registers is found beside points that are differentiated by") {
  Sequential net = network();
  Linear loose(1, 1);
  attach_diagnostics(net, quiet());
  torch::optim::Adam optimizer(net->parameters(), 0.001);
  const auto points = torch::rand({16, 2}).requires_grad_(true);
  train(optimizer, [&] {
    return (derivative(loose->forward(net->forward(points)).tanh(), points) + 1).square().mean();
  });
  const auto all = findings();
  CHECK(only(all, "module-unregistered").what.starts_with("2 trainable tensors, 2 elements, "));
}

TEST_CASE("A penalty on gradients without a graph is told") {
  train_with_penalty(/*has_graph=*/false);
  check_findings({"autograd-cut warning - - no_create_graph aten::add"});
}

TEST_CASE("A penalty on gradients with a graph is silent") {
  train_with_penalty(/*has_graph=*/true);
  check_silent();
}

TEST_CASE("An inner step by what grad() returned is silent") {
  Linear net(2, 1);
  attach_diagnostics(net, quiet());
  torch::optim::Adam optimizer(net->parameters(), 0.001);
  train(optimizer, [&] {
    const auto points = torch::rand({16, 2});
    const auto inner = torch::linear(points, net->weight, net->bias).square().mean();
    const auto slopes = grad({inner}, {net->weight, net->bias});
    const auto weight = net->weight - 0.1 * slopes[0];
    return torch::linear(points, weight, net->bias - 0.1 * slopes[1]).square().mean();
  });
  check_silent();
}

TEST_CASE("A loss that is weighed by the size of a gradient is silent") {
  Sequential net = network();
  attach_diagnostics(net, quiet());
  torch::optim::Adam optimizer(net->parameters(), 0.001);
  train(optimizer, [&] {
    const auto points = torch::rand({16, 2}).requires_grad_(true);
    const auto value = net->forward(points);
    const auto first = value.square().mean();
    const auto second = (value - 1).square().mean();
    const auto size = grad({first}, {points}, {}, /*retain_graph=*/true)[0].abs().max();
    return first + second * size;
  });
  check_silent();
}

}  // namespace ddpscope::test
