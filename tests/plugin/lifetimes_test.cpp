// Models that come, go, move and multiply: with and without ddpscope the same bits.
#include <atomic>
#include <thread>

#include "tests/plugin/twin_runs.h"

namespace ddpscope::test {
namespace {
using torch::nn::Linear;
using torch::nn::Module;
using torch::optim::Adam;
using torch::optim::SGD;

// Draws nothing at random, so that threads may take any turn.
std::vector<at::Tensor> train_quietly(Net& net, int steps) {
  const at::Tensor input = torch::linspace(-1, 1, 40).reshape({5, 8});
  std::vector<at::Tensor> losses;
  Adam optimizer(net->parameters(), 0.01);
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    const at::Tensor loss = net->forward(input).square().mean();
    loss.backward();
    optimizer.step();
    losses.push_back(loss.detach());
  }
  return losses;
}
}  // namespace

TEST_CASE("Models that die while they are watched compute the same") {
  const Outcome outcome = twin_runs([](const Notes& notes) {
    for (int i = 0; i < 12; ++i) {
      Net net;
      attach_diagnostics(net, quiet());
      train_noted(notes, net, 3);
      const at::Tensor loss = net->loss();
      net = nullptr;
      loss.backward();  // its graph is alive, the module is not
    }
    auto on_stack = std::make_unique<NetImpl>();
    attach_diagnostics(*on_stack, quiet());
    const at::Tensor loss = on_stack->loss();
    on_stack.reset();
    loss.backward();
    notes.bits(loss);
    return 0;
  });
  CHECK(outcome.exit_code == 0);
}

TEST_CASE("An optimizer that outlives its model computes the same") {
  const Outcome outcome = twin_runs([](const Notes& notes) {
    auto net = std::make_unique<NetImpl>();
    attach_diagnostics(*net, quiet());
    const std::vector<at::Tensor> parameters = net->parameters();
    SGD optimizer(parameters, 0.01);
    train(
        optimizer, [&] { return net->loss(); }, 3);
    net.reset();
    for (int i = 0; i < 3; ++i) {
      optimizer.zero_grad();
      (parameters[0].square().mean() + parameters[2].square().mean()).backward();
      optimizer.step();
    }
    for (const at::Tensor& parameter : parameters) notes.bits(parameter);
    return 0;
  });
  CHECK(outcome.exit_code == 0);
}

TEST_CASE("Temporary models by the thousand compute the same") {
  const Outcome outcome = twin_runs([](const Notes& notes) {
    Net kept;
    attach_diagnostics(kept, quiet());
    for (int i = 0; i < 1000; ++i) {
      Net temporary;
      if (i % 100 == 0) attach_diagnostics(temporary, quiet());
      SGD optimizer(temporary->parameters(), 0.01);
      temporary->loss().backward();
      optimizer.step();
      if (i % 50 == 0) notes.state_of(*temporary);
    }
    train_noted(notes, kept);
    return 0;
  });
  CHECK(outcome.exit_code == 0);
}

TEST_CASE("Copies and clones compute the same") {
  struct Cloneable : torch::nn::Cloneable<Cloneable> {
    Cloneable() { reset(); }
    void reset() override { layer = register_module("layer", Linear(8, 2)); }
    Linear layer{nullptr};
  };
  const Outcome outcome = twin_runs([](const Notes& notes) {
    Net net;
    attach_diagnostics(net, quiet());
    train_noted(notes, net);
    NetImpl copy(*net);
    attach_diagnostics(copy, quiet());
    notes.state_of(copy);
    Cloneable original;
    attach_diagnostics(original, quiet());
    const auto twin = std::dynamic_pointer_cast<Cloneable>(original.clone());
    attach_diagnostics(twin, quiet());
    SGD optimizer(twin->parameters(), 0.01);
    train(optimizer, [&] { return twin->layer(torch::randn({5, 8})).square().mean(); });
    notes.state_of(original);
    notes.state_of(*twin);
    return 0;
  });
  CHECK(outcome.exit_code == 0);
}

TEST_CASE("A model that every thread has in its hands computes the same") {
  const Outcome outcome = twin_runs([](const Notes& notes) {
    Net net(nullptr);
    std::thread([&] { net = Net(); }).join();
    std::thread([&] { attach_diagnostics(net, quiet()); }).join();
    std::thread([&] { train_noted(notes, net); }).join();
    train_noted(notes, net);
    std::thread([&] { net = nullptr; }).join();
    return 0;
  });
  CHECK(outcome.exit_code == 0);
}

TEST_CASE("Four threads with four models compute the same") {
  const Outcome outcome = twin_runs([](const Notes& notes) {
    std::vector<Net> nets(4);
    std::vector<std::vector<at::Tensor>> losses(4);
    std::vector<std::thread> threads;
    at::set_num_threads(1);  // before them: of a library below it is one number for the process
    for (std::size_t i = 0; i < nets.size(); ++i) {
      threads.emplace_back([&, i] {
        at::set_num_threads(1);
        attach_diagnostics(nets[i], quiet());
        losses[i] = train_quietly(nets[i], 60);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (std::size_t i = 0; i < nets.size(); ++i) {
      notes.bits(torch::stack(losses[i]));
      notes.state_of(*nets[i]);
    }
    return 0;
  });
  CHECK(outcome.exit_code == 0);
}

TEST_CASE("A model without parameters and one with an empty child compute the same") {
  struct Empty : Module {};
  struct Holed : Module {
    Linear body = register_module("body", Linear(8, 4));
    Linear hole = register_module("hole", std::shared_ptr<torch::nn::LinearImpl>());
  };
  const Outcome outcome = twin_runs([](const Notes& notes) {
    Empty empty;
    attach_diagnostics(empty, quiet());
    notes.state_of(empty);
    Holed holed;
    attach_diagnostics(holed, quiet());
    SGD optimizer(holed.body->parameters(), 0.01);
    train(optimizer, [&] { return holed.body(torch::randn({5, 8})).square().mean(); });
    notes.state_of(*holed.body);
    return 0;
  });
  CHECK(outcome.exit_code == 0);
}

}  // namespace ddpscope::test
