// Correct programs that write, keep and reuse what backward reads: nothing is found.
#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
using torch::nn::Linear;
using torch::nn::Module;
using torch::optim::SGD;

struct Kept : Module {
  at::Tensor forward(const at::Tensor& x) { return second(torch::relu(first(x))); }
  at::Tensor loss() { return forward(input()).square().mean(); }
  Linear first = register_module("first", Linear(8, 8));
  Linear second = register_module("second", Linear(8, 2));
};
}  // namespace

TEST_CASE("A gradient penalty is silent") {
  Kept net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  train(optimizer, [&] {
    const at::Tensor x = torch::randn({5, 8}, torch::requires_grad());
    const at::Tensor y = net.forward(x).sum();
    const auto slopes = torch::autograd::grad({y}, {x}, {}, true, /*create_graph=*/true);
    return y.square().mean() + (slopes[0].norm() - 1).square();
  });
  check_silent();
}

TEST_CASE("Inputs of steps whose graph is kept are not called unregistered") {
  struct Recurrent : Module {
    torch::nn::GRUCell cell = register_module("cell", torch::nn::GRUCell(8, 8));
  } net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  at::Tensor hidden = torch::zeros({5, 8});
  for (int step = 0; step < 4; ++step) {
    hidden = net.cell(torch::randn({5, 8}, torch::requires_grad()), hidden);
    optimizer.zero_grad();
    hidden.square().mean().backward({}, /*retain_graph=*/true);
    optimizer.step();
  }
  CHECK(find(findings(), "module-unregistered") == nullptr);
}

TEST_CASE("Truncated back-propagation through time is silent") {
  struct Recurrent : Module {
    torch::nn::GRUCell cell = register_module("cell", torch::nn::GRUCell(8, 8));
  } net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  at::Tensor hidden = torch::zeros({5, 8});
  train(
      optimizer,
      [&] {
        hidden = hidden.detach();
        for (int i = 0; i < 3; ++i) hidden = net.cell(input(), hidden);
        return hidden.square().mean();
      },
      24);
  check_silent();
}

TEST_CASE("Recomputing a part of the forward in backward is silent") {
  struct Recompute : torch::autograd::Function<Recompute> {
    static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
      context->save_for_backward({x});
      return x.sigmoid();
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                   torch::autograd::variable_list gradients) {
      const at::AutoGradMode with_grad(true);
      at::Tensor x = context->get_saved_variables()[0].detach().requires_grad_();
      const at::Tensor y = x.sigmoid();
      y.backward(gradients[0]);
      return {x.grad()};
    }
  };
  Kept net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  train(optimizer, [&] { return Recompute::apply(net.forward(input())).sum(); });
  check_silent();
}

TEST_CASE("Averages of weights and target networks are silent") {
  Kept net;
  Kept target;
  attach_diagnostics(net, quiet());
  attach_diagnostics(target, quiet());
  for (at::Tensor& parameter : target.parameters()) parameter.requires_grad_(false);
  SGD optimizer(net.parameters(), 0.01);
  for (int i = 0; i < 8; ++i) {
    optimizer.zero_grad();
    const at::Tensor x = input();
    (net.forward(x) - target.forward(x)).square().mean().backward();
    optimizer.step();
    const torch::NoGradGuard guard;
    for (std::size_t k = 0; k < target.parameters().size(); ++k) {
      target.parameters()[k].data().mul_(0.9).add_(net.parameters()[k].data(), 0.1);
    }
  }
  check_silent(2);
}

TEST_CASE("Pruning after the step is silent") {
  Kept net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  for (int i = 0; i < 8; ++i) {
    optimizer.zero_grad();
    net.loss().backward();
    optimizer.step();
    net.first->weight.data().mul_(net.first->weight.data().abs() > 0.01);
  }
  check_silent();
}

TEST_CASE("A graph that is kept and used twice is silent") {
  Kept net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  train(
      optimizer,
      [&] {
        const at::Tensor shared = net.forward(input());
        shared.square().mean().backward({}, /*retain_graph=*/true);
        return shared.abs().mean();
      },
      12);
  check_silent();
}

TEST_CASE("An optimizer that evaluates the loss itself is silent") {
  Kept net;
  attach_diagnostics(net, quiet());
  torch::optim::LBFGS optimizer(net.parameters(), torch::optim::LBFGSOptions(0.1).max_iter(4));
  const at::Tensor x = input();
  train_by_closure(
      optimizer, [&] { return net.forward(x).square().mean(); }, 6);
  check_silent();
}

TEST_CASE("Writing what no node saved is silent") {
  Kept net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  train(optimizer, [&] {
    at::Tensor y = net.first(input());
    y.add_(1).relu_();
    at::Tensor joined = torch::zeros({5, 16});
    joined.slice(1, 0, 8).copy_(y);
    joined.slice(1, 8, 16).copy_(y * 2);
    return net.second(joined.slice(1, 4, 12)).square().mean();
  });
  check_silent();
}

TEST_CASE("Buffers that are written where no backward needs them are silent") {
  struct Normed : Module {
    at::Tensor forward(const at::Tensor& x) { return norm(first(x)).square() * scale; }
    at::Tensor loss() { return forward(input()).mean(); }
    Linear first = register_module("first", Linear(8, 4));
    torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(4));
    at::Tensor scale = register_buffer("scale", torch::ones({4}));
    at::Tensor queue = register_buffer("queue", torch::zeros({6, 4}));
  } net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  train(optimizer, [&] {
    {
      const torch::NoGradGuard guard;
      net.forward(input());
      net.norm->running_mean.zero_();  // after a forward without a graph
      net.scale.mul_(0.9);
    }
    net.loss();  // its graph is freed before the next write
    net.norm->running_var.fill_(1);
    net.scale.mul_(0.9);
    const at::Tensor made = net.forward(input());
    const torch::NoGradGuard guard;
    net.queue.slice(0, 0, 5).copy_(made);
    const at::AutoGradMode with_grad(true);
    return (made * net.queue.slice(0, 0, 5).detach().clone()).mean();
  });
  check_silent();
}

TEST_CASE("Views that may be written, or are only read, are silent") {
  Kept net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  train(optimizer, [&] {
    at::Tensor y = torch::tanh(net.first(input())) + 0.1;
    y.slice(1, 0, 4).add_(1);
    y.select(0, 1).add_(1);
    y.view({40}).add_(1);
    const auto parts = y.chunk(2, 1);
    const at::Tensor read = parts[0] * parts[1];
    const torch::NoGradGuard guard;
    const at::Tensor constant = torch::ones({5, 8});
    constant.chunk(2, 1)[0].mul_(2);
    constant.unbind(0)[0].mul_(2);
    const at::AutoGradMode with_grad(true);
    return net.second(torch::cat({read, read}, 1) * constant).square().mean();
  });
  check_silent();
}

TEST_CASE("Trainable leaves that are written by guards, modes and set_data are silent") {
  Kept net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  for (int i = 0; i < 6; ++i) {
    train(
        optimizer, [&] { return net.loss(); }, 1);
    {
      const torch::NoGradGuard guard;
      net.first->weight.clamp_(-1, 1);
    }
    net.second->bias.set_data(net.second->bias.data() * 0.5);
    const c10::InferenceMode inference;
    torch::ones({2}).mul_(2);
  }
  check_silent();
}

TEST_CASE("Two losses on graphs of their own are silent") {
  Kept net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  for (int i = 0; i < 8; ++i) {
    optimizer.zero_grad();
    net.loss().backward();
    net.forward(input()).abs().mean().backward();
    optimizer.step();
  }
  check_silent();
}

TEST_CASE("Recurrent layers and dropout are silent") {
  struct Sequence : Module {
    at::Tensor loss() {
      const auto [output, state] = lstm(torch::randn({6, 5, 8}));
      return head(dropout(std::get<0>(gru(output)))).square().mean();
    }
    torch::nn::LSTM lstm = register_module("lstm", torch::nn::LSTM(8, 8));
    torch::nn::GRU gru = register_module("gru", torch::nn::GRU(8, 8));
    torch::nn::Dropout dropout = register_module("dropout", torch::nn::Dropout(0.3));
    Linear head = register_module("head", Linear(8, 2));
  } net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  train(
      optimizer, [&] { return net.loss(); }, 8);
  check_silent();
}

TEST_CASE("Graphs that are dropped without a backward are silent") {
  Kept net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  train(optimizer, [&] {
    at::Tensor unused = torch::sigmoid(net.forward(input()));
    unused.add_(1);
    return net.loss();
  });
  check_silent();
}

}  // namespace ddpscope::test
