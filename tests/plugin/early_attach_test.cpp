// Where the attach stands among the other first lines of a program.
#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
using torch::nn::Linear;
using torch::optim::SGD;
}  // namespace

TEST_CASE("An attach after the optimizer is silent") {
  Net net;
  SGD optimizer(net->parameters(), 0.01);
  attach_diagnostics(net, quiet());
  train(optimizer, [&] { return net->loss(); });
  check_silent();
}

TEST_CASE("An attach in the middle of the run is silent") {
  Net net;
  SGD optimizer(net->parameters(), 0.01);
  train(optimizer, [&] { return net->loss(); });
  attach_diagnostics(net, quiet());
  train(optimizer, [&] { return net->loss(); });
  check_silent();
}

TEST_CASE("An optimizer of another model before the attach is silent") {
  Net other;
  SGD other_optimizer(other->parameters(), 0.01);
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  for (int i = 0; i < 8; ++i) {
    train(
        other_optimizer, [&] { return other->loss(); }, 1);
    train(
        optimizer, [&] { return net->loss(); }, 1);
  }
  check_silent();
}

TEST_CASE("A model that grows before its optimizer is built is silent") {
  torch::nn::Sequential net(Linear(8, 8));
  attach_diagnostics(net, quiet());
  net->push_back(torch::nn::ReLU());
  net->push_back(Linear(8, 2));
  SGD optimizer(net->parameters(), 0.01);
  train(optimizer, [&] { return net->forward(torch::randn({5, 8})).square().mean(); });
  check_silent();
}

TEST_CASE("An optimizer that is built empty and filled later is silent") {
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(std::vector<at::Tensor>{}, 0.01);
  optimizer.param_groups()[0].params() = net->parameters();
  train(optimizer, [&] { return net->loss(); });
  check_silent();
}

}  // namespace ddpscope::test
