// Correct programs, by the shape of their training loops: ddpscope has nothing to say about them.
#include <thread>

#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
using torch::nn::Linear;
using torch::nn::Module;
using torch::nn::Sequential;
using torch::optim::Adam;
using torch::optim::SGD;

void train_gan(int critic_steps) {
  Sequential generator(Linear(4, 8), torch::nn::ReLU(), Linear(8, 8));
  Sequential critic(Linear(8, 8), torch::nn::ReLU(), Linear(8, 1));
  attach_diagnostics(generator, quiet()).name("generator");
  attach_diagnostics(critic, quiet()).name("critic");
  Adam for_generator(generator->parameters(), 1e-3);
  Adam for_critic(critic->parameters(), 1e-3);
  const auto fake = [&] { return generator->forward(torch::randn({5, 4})); };
  for (int i = 0; i < 12; ++i) {
    for (int k = 0; k < critic_steps; ++k) {
      for_critic.zero_grad();
      (critic->forward(fake().detach()).mean() - critic->forward(input()).mean()).backward();
      for_critic.step();
    }
    for_generator.zero_grad();
    critic->forward(fake()).mean().neg().backward();
    for_generator.step();
  }
  check_silent(2);
}

struct Doubling : torch::autograd::Function<Doubling> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    return x * 2;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list& gradients) {
    return {gradients[0] * 2};
  }
};

struct Samples : torch::data::datasets::Dataset<Samples> {
  torch::data::Example<> get(std::size_t) override { return {torch::randn({8}), torch::zeros({})}; }
  std::optional<std::size_t> size() const override { return 48; }
};
}  // namespace

TEST_CASE("A GAN with one critic step is silent") { train_gan(1); }

TEST_CASE("A GAN with five critic steps is silent") { train_gan(5); }

TEST_CASE("Accumulation with a remainder is silent") {
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  for (int epoch = 0; epoch < 4; ++epoch) {
    optimizer.zero_grad();
    for (int batch = 0; batch < 10; ++batch) {
      (net->loss() / 4).backward();
      if (batch % 4 != 3 && batch != 9) continue;
      optimizer.step();
      optimizer.zero_grad();
    }
  }
  check_silent();
}

TEST_CASE("A line search with a closure is silent") {
  Net net;
  attach_diagnostics(net, quiet());
  torch::optim::LBFGS optimizer(net->parameters(), torch::optim::LBFGSOptions(0.1).max_iter(5));
  train_by_closure(
      optimizer, [&] { return net->loss(); }, 6);
  check_silent();
}

TEST_CASE("Two optimizers are silent") {
  Net net;
  attach_diagnostics(net, quiet());
  SGD first(net->first->parameters(), 0.01);
  Adam second(net->second->parameters());
  for (int i = 0; i < 8; ++i) {
    net->zero_grad();
    net->loss().backward();
    first.step();
    second.step();
  }
  check_silent();
}

TEST_CASE("Frozen parameters are silent") {
  Net net;
  for (at::Tensor& parameter : net->first->parameters()) parameter.requires_grad_(false);
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  train(optimizer, [&] { return net->loss(); });
  check_silent();
}

TEST_CASE("Freezing in the middle of the run is silent") {
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  train(optimizer, [&] { return net->loss(); });
  for (at::Tensor& parameter : net->first->parameters()) parameter.requires_grad_(false);
  train(optimizer, [&] { return net->loss(); });
  check_silent();
}

TEST_CASE("A teacher without gradients beside a student is silent") {
  Net teacher;
  Net student;
  attach_diagnostics(teacher, quiet()).name("teacher");
  attach_diagnostics(student, quiet()).name("student");
  teacher->eval();
  SGD optimizer(student->parameters(), 0.01);
  train(optimizer, [&] {
    const at::Tensor x = input();
    at::Tensor target;
    {
      const torch::NoGradGuard guard;
      target = teacher->forward(x);
    }
    return torch::mse_loss(student->forward(x), target);
  });
  check_silent(2);
}

TEST_CASE("A validation pass in each epoch is silent") {
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  for (int epoch = 0; epoch < 3; ++epoch) {
    net->train();
    train(
        optimizer, [&] { return net->loss(); }, 3);
    net->eval();
    const torch::NoGradGuard guard;
    net->loss();
  }
  check_silent();
}

TEST_CASE("Inputs that require grad are silent") {
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  train(optimizer, [&] {
    const at::Tensor x = input().requires_grad_();
    const at::Tensor y = net->forward(x);
    const auto slopes = torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true,
                                              /*create_graph=*/true);
    return y.square().mean() + slopes[0].square().mean();
  });
  check_silent();
}

TEST_CASE("An own autograd function is silent") {
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  train(optimizer, [&] { return Doubling::apply(net->forward(input())).square().mean(); });
  check_silent();
}

TEST_CASE("A model that dies while it is attached is silent") {
  for (int i = 0; i < 3; ++i) {
    NetImpl on_stack;
    auto owned = std::make_unique<NetImpl>();
    attach_diagnostics(on_stack, quiet());
    attach_diagnostics(*owned, quiet());
    SGD optimizer(on_stack.parameters(), 0.01);
    train(
        optimizer, [&] { return on_stack.loss(); }, 3);
    SGD other(owned->parameters(), 0.01);
    owned.reset();
    train(
        optimizer, [&] { return on_stack.loss(); }, 3);
  }
  Net last;
  attach_diagnostics(last, quiet());
  SGD optimizer(last->parameters(), 0.01);
  train(optimizer, [&] { return last->loss(); });
  check_silent();
}

TEST_CASE("A model that is detached and trained on is silent") {
  Net net;
  Attachment attachment = attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  train(optimizer, [&] { return net->loss(); });
  attachment.detach();
  train(optimizer, [&] { return net->loss(); });
  check_silent();
}

TEST_CASE("Attaching twice is silent and one attachment") {
  Net net;
  attach_diagnostics(net, quiet());
  attach_diagnostics(*net, quiet());
  attach_diagnostics(net.ptr(), quiet());
  SGD optimizer(net->parameters(), 0.01);
  train(optimizer, [&] { return net->loss(); });
  check_silent();
  CHECK(records("model").size() == 1);
}

TEST_CASE("An optimizer after the attach is silent") {
  Net net;
  attach_diagnostics(net, quiet());
  Adam optimizer(net->parameters());
  train(
      optimizer, [&] { return net->loss(); }, 40);
  check_silent();
}

TEST_CASE("No optimizer and an update by hand is silent") {
  Net net;
  attach_diagnostics(net, quiet());
  for (int i = 0; i < 8; ++i) {
    net->zero_grad();
    net->loss().backward();
    const torch::NoGradGuard guard;
    for (at::Tensor& parameter : net->parameters()) parameter.sub_(parameter.grad() * 0.01);
  }
  check_silent();
}

TEST_CASE("Clipping and a learning rate schedule are silent") {
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  torch::optim::StepLR schedule(optimizer, 2, 0.5);
  for (int i = 0; i < 8; ++i) {
    optimizer.zero_grad();
    net->loss().backward();
    torch::nn::utils::clip_grad_norm_(net->parameters(), 1.0);
    optimizer.step();
    schedule.step();
  }
  check_silent();
}

TEST_CASE("Clearing gradients by hand is silent") {
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  for (int i = 0; i < 8; ++i) {
    net->loss().backward();
    optimizer.step();
    for (at::Tensor& parameter : net->parameters()) parameter.mutable_grad().zero_();
  }
  check_silent();
}

TEST_CASE("A data loader with threads is silent") {
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  auto loader =
      torch::data::make_data_loader(Samples().map(torch::data::transforms::Stack<>()),
                                    torch::data::DataLoaderOptions().batch_size(8).workers(2));
  for (auto& batch : *loader) {
    train(
        optimizer, [&] { return net->forward(batch.data).square().mean(); }, 1);
  }
  check_silent();
}

TEST_CASE("Replicas on threads whose weights are copied back each step are silent") {
  torch::nn::Linear net(8, 2);
  attach_diagnostics(net, quiet());
  const auto replica = std::dynamic_pointer_cast<torch::nn::LinearImpl>(net->clone());
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  for (int i = 0; i < 6; ++i) {
    std::thread([&] {
      replica->zero_grad();
      replica->forward(torch::randn({4, 8})).square().mean().backward();
    }).join();
    const auto own = net->parameters();
    const auto others = replica->parameters();
    for (std::size_t k = 0; k < own.size(); ++k) own[k].mutable_grad() = others[k].grad().clone();
    optimizer.step();
    const torch::NoGradGuard no_grad;
    for (std::size_t k = 0; k < own.size(); ++k) others[k].copy_(own[k]);
  }
  check_silent();
}

}  // namespace ddpscope::test
