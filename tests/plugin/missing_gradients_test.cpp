// Parameters without gradients: each cause is told apart.
#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
using torch::nn::Linear;
using torch::nn::Module;
using torch::optim::SGD;

struct ReturnsNothing : torch::autograd::Function<ReturnsNothing> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x,
                            const at::Tensor& scale) {
    return x * scale;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list& gradients) {
    return {gradients[0], at::Tensor()};
  }
};

struct Agent : Module {
  Linear online = register_module("online", Linear(8, 8));
  Linear target = register_module("target", Linear(8, 8));

  void copy_to_target() {
    const torch::NoGradGuard guard;
    for (std::size_t i = 0; i < 2; ++i) target->parameters()[i].copy_(online->parameters()[i]);
  }
  at::Tensor loss() {
    const at::Tensor wanted = target(input()).detach();
    return (online(input()) - wanted).square().mean();
  }
};

struct Shifted : Module {
  Linear layer = register_module("layer", Linear(8, 8));
  at::Tensor shift = register_parameter("shift", torch::zeros({8}));
};

void train_shifted(at::Tensor (*read)(const at::Tensor& shift)) {
  Shifted net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  train(optimizer, [&] { return (net.layer(input()) + read(net.shift)).square().mean(); });
}
}  // namespace

TEST_CASE("A target that is filled before the attach and read without a gradient path is silent") {
  Agent agent;
  agent.copy_to_target();
  attach_diagnostics(agent, quiet());
  SGD optimizer(agent.online->parameters(), 0.01);
  train(optimizer, [&] { return agent.loss(); });
  check_silent();
}

TEST_CASE("A target that is filled after the attach and read without a gradient path is silent") {
  Agent agent;
  attach_diagnostics(agent, quiet());
  agent.copy_to_target();
  SGD optimizer(agent.online->parameters(), 0.01);
  train(optimizer, [&] { return agent.loss(); });
  check_silent();
}

TEST_CASE("A layer that chooses by integers gets no gradient") {
  struct Routed : Module {
    Linear gate = register_module("gate", Linear(8, 3));
    Linear expert = register_module("expert", Linear(8, 3));
    at::Tensor loss() {
      const at::Tensor chosen = gate(input()).argmax(1, /*keepdim=*/true);
      return expert(input()).gather(1, chosen).square().mean();
    }
  } net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  train(optimizer, [&] { return net.loss(); });
  check_findings({"autograd-cut warning gate - integer_op aten::argmax",
                  "grad-missing warning gate - cut aten::addmm"});
}

TEST_CASE("A parameter that is read through data() gets no gradient") {
  train_shifted([](const at::Tensor& shift) { return shift.data(); });
  check_findings(
      {"autograd-cut warning - - detach data()", "grad-missing warning - shift cut data()"});
}

TEST_CASE("Force fields whose energy enters no loss leave an undecided note") {
  torch::nn::Sequential energy(Linear(3, 8), torch::nn::Tanh(), Linear(8, 1));
  attach_diagnostics(energy, quiet());
  SGD optimizer(energy->parameters(), 0.01);
  train(optimizer, [&] {
    const at::Tensor place = torch::randn({4, 3}).requires_grad_();
    const at::Tensor sum = energy->forward(place).sum();
    return torch::autograd::grad({sum}, {place}, {}, true, true)[0].square().mean();
  });
  const auto all = findings();
  const Finding* found = find(all, "grad-missing");
  REQUIRE(found != nullptr);
  CHECK(found->severity == "note");
  CHECK(found->why.starts_with("they ran, and a backward reached them"));
}

TEST_CASE("A layer that is never called gets no gradient") {
  Side net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  train(optimizer, [&] { return net->main_loss(); });
  check_findings({"grad-missing warning side - not_used -"});
}

TEST_CASE("A layer that evaluation alone calls is not used") {
  Side net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  train(optimizer, [&] {
    const torch::NoGradGuard guard;
    (net->main_loss() + net->side(input()).sum()).item<double>();
    const torch::AutoGradMode with_grad(true);
    return net->main_loss();
  });
  check_findings({"grad-missing warning side - not_used -"});
}

TEST_CASE("An output that enters no loss gets no gradient") {
  Side net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  std::vector<at::Tensor> outputs;
  train(optimizer, [&] {
    outputs = {net->side(input())};
    return net->main_loss();
  });
  check_findings({"grad-missing warning side - output_not_in_loss aten::addmm"});
}

TEST_CASE("A result that is dropped gets no gradient") {
  Side net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  train(optimizer, [&] {
    net->side(input());
    return net->main_loss();
  });
  check_findings({"grad-missing warning side - result_dropped aten::addmm"});
}

TEST_CASE("A detached result gets no gradient") {
  Side net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  train(optimizer, [&] {
    const at::Tensor extra = net->side(input()).detach();
    return net->main_loss() * extra.square().mean();
  });
  check_findings({"autograd-cut warning side - detach aten::detach",
                  "grad-missing warning side - cut aten::addmm"});
}

TEST_CASE("A parameter that is read through detach gets no gradient") {
  train_shifted([](const at::Tensor& shift) { return shift.detach(); });
  check_findings({"autograd-cut warning - - detach aten::detach",
                  "grad-missing warning - shift cut aten::detach"});
}

TEST_CASE("A generator behind detach gets no gradient") {
  Linear generator(2, 8);
  Linear critic(8, 1);
  attach_diagnostics(generator, quiet()).name("generator");
  attach_diagnostics(critic, quiet()).name("critic");
  SGD for_generator(generator->parameters(), 0.01);
  SGD for_critic(critic->parameters(), 0.01);
  for (int i = 0; i < 8; ++i) {
    const at::Tensor noise = torch::randn({5, 2});
    train(
        for_critic, [&] { return critic(generator(noise).detach()).mean(); }, 1);
    train(
        for_generator, [&] { return -critic(generator(noise).detach()).mean(); }, 1);
  }
  const auto all = findings();
  const Finding* found = find(all, "grad-missing");
  REQUIRE(found != nullptr);
  CHECK(text_fact(*found, "cause") == "cut");
}

namespace {
/// A layer of which the loss only has a value.
void check_guarded(bool is_evaluated) {
  Side net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  train(optimizer, [&] {
    at::Tensor extra;
    {
      const torch::NoGradGuard guard;
      if (is_evaluated) (net->main_loss() + net->side(input()).sum()).item<double>();
      extra = net->side(input());
    }
    return net->main_loss() * extra.square().mean();
  });
  check_findings({"autograd-cut warning side - grad_mode_off aten::addmm",
                  "grad-missing warning side - grad_mode_off aten::addmm"});
}
}  // namespace

TEST_CASE("A layer under a guard gets no gradient") { check_guarded(/*is_evaluated=*/false); }

TEST_CASE("A layer under a guard gets no gradient, though the whole model is evaluated") {
  check_guarded(/*is_evaluated=*/true);
}

TEST_CASE("A function that returns no gradient is named as the cause") {
  struct Scaled : Module {
    at::Tensor loss() { return ReturnsNothing::apply(layer(input()), scale).square().mean(); }
    Linear layer = register_module("layer", Linear(8, 8));
    at::Tensor scale = register_parameter("scale", torch::ones({8}));
  } net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  train(optimizer, [&] { return net.loss(); });
  check_findings({"grad-missing warning - scale function_returned_nothing -"});
}

}  // namespace ddpscope::test
