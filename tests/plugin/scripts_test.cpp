// Modules of TorchScript: their buffers, their modes, and how long they live.
#include <torch/csrc/jit/api/module.h>

#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
using torch::optim::SGD;
using Script = torch::jit::Module;

/// Batch norm over 8 features.
Script norm_script() {
  Script norm("Norm");
  norm.register_attribute("training", c10::BoolType::get(), true);
  norm.register_parameter("weight", torch::ones({8}).requires_grad_(), /*is_buffer=*/false);
  norm.register_parameter("bias", torch::zeros({8}).requires_grad_(), /*is_buffer=*/false);
  norm.register_buffer("running_mean", torch::zeros({8}));
  norm.register_buffer("running_var", torch::ones({8}));
  norm.define(R"(
    def forward(self, x):
      return torch.batch_norm(x, self.weight, self.bias, self.running_mean, self.running_var,
                              self.training, 0.1, 1e-5, False)
  )");
  return norm;
}

Script backbone_script() {
  Script net("Backbone");
  net.register_attribute("training", c10::BoolType::get(), true);
  net.register_module("norm", norm_script());
  net.define(R"(
    def forward(self, x):
      return self.norm.forward(x)
  )");
  return net;
}

std::vector<at::Tensor> parameters_of(const Script& net) {
  std::vector<at::Tensor> parameters;
  for (const at::Tensor& parameter : net.parameters()) parameters.push_back(parameter);
  return parameters;
}

/// A head that trains above a script.
struct Tuned {
  at::Tensor loss() { return head(script.forward({input()}).toTensor()).square().mean(); }
  Script script = backbone_script();
  torch::nn::Linear head{8, 2};
};

/// Twelve steps of the head above a frozen script.
void tune(Tuned& net) {
  for (at::Tensor parameter : net.script.parameters()) parameter.requires_grad_(false);
  attach_diagnostics(net.script, quiet());
  attach_diagnostics(net.head, quiet());
  SGD optimizer(net.head->parameters(), 0.01);
  train(
      optimizer, [&] { return net.loss(); }, 12);
}

/// Two epochs, with an evaluation after each.
void train_and_evaluate(Script& net, bool is_undone) {
  attach_diagnostics(net, quiet());
  SGD optimizer(parameters_of(net), 0.01);
  for (int epoch = 0; epoch < 2; ++epoch) {
    if (epoch == 0 || is_undone) net.train();
    train(
        optimizer, [&] { return net.forward({input()}).toTensor().square().mean(); }, 12);
    net.eval();
    const torch::NoGradGuard guard;
    net.forward({input()});
  }
}
}  // namespace

TEST_CASE("Frozen normalisation of a script in training mode is found") {
  Tuned net;
  tune(net);
  check_findings({"module-mode warning norm - frozen_norm_updates aten::batch_norm"});
}

TEST_CASE("Frozen normalisation of a script in eval mode is silent") {
  Tuned net;
  net.script.eval();
  tune(net);
  check_findings({});
}

TEST_CASE("An evaluation of a script that is not undone is found") {
  Script net = backbone_script();
  train_and_evaluate(net, /*is_undone=*/false);
  check_findings({"module-mode warning - - eval_while_training -"});
}

TEST_CASE("An evaluation of a script that is undone is silent") {
  Script net = backbone_script();
  train_and_evaluate(net, /*is_undone=*/true);
  check_findings({});
}

TEST_CASE("A script that is attached gives its memory back when it dies") {
  const auto first_of = [](const Script& net) {
    return c10::weak_intrusive_ptr<c10::TensorImpl>(parameters_of(net).at(0).getIntrusivePtr());
  };
  auto net = std::make_unique<Script>(backbone_script());
  attach_diagnostics(*net, quiet());
  net->eval();
  const auto parameter = first_of(*net);
  CHECK_FALSE(parameter.expired());
  net.reset();
  CHECK(parameter.expired());
}

TEST_CASE("Scripts that die and leave their place to others are silent") {
  for (int round = 0; round < 100; ++round) {
    Script net = backbone_script();
    attach_diagnostics(net, quiet());
    net.forward({input()}).toTensor().square().mean().backward();
  }
  Script net = backbone_script();
  train_and_evaluate(net, /*is_undone=*/true);
  check_findings({});
}

}  // namespace ddpscope::test
