// Programs that run in a mode that is not meant, each beside its correct twin.
#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
using torch::nn::BatchNorm1d;
using torch::nn::Linear;
using torch::nn::Module;
using torch::optim::SGD;

struct BackboneImpl : Module {
  at::Tensor forward(const at::Tensor& x) { return norm(layer(x)).relu(); }
  Linear layer = register_module("layer", Linear(8, 8));
  BatchNorm1d norm = register_module("norm", BatchNorm1d(8));
};
TORCH_MODULE(Backbone);

// A frozen backbone below a head that trains.
struct Tuned : Module {
  Tuned() {
    for (at::Tensor& parameter : backbone->parameters()) parameter.requires_grad_(false);
  }
  at::Tensor loss() { return head(backbone(input())).square().mean(); }
  Backbone backbone = register_module("backbone", Backbone());
  Linear head = register_module("head", Linear(8, 2));
};

// What drops out is the case.
struct Dropping : Module {
  at::Tensor forward(const at::Tensor& x) { return second(drop(first(x).relu())); }
  at::Tensor loss() { return forward(input()).square().mean(); }
  void evaluate(int batches = 4) {
    const torch::NoGradGuard guard;
    for (int i = 0; i < batches; ++i) forward(input());
  }
  Linear first = register_module("first", Linear(8, 8));
  Linear second = register_module("second", Linear(8, 2));
  std::function<at::Tensor(const at::Tensor&)> drop = [](const at::Tensor& x) { return x; };
};

void train_and_evaluate(Dropping& net) {
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  for (int epoch = 0; epoch < 2; ++epoch) {
    net.train();
    train(
        optimizer, [&] { return net.loss(); }, 4);
    net.eval();
    net.evaluate();
  }
}
}  // namespace

TEST_CASE("Frozen normalisation that is kept in training mode is found") {
  Tuned net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.head->parameters(), 0.01);
  net.train();
  train(
      optimizer, [&] { return net.loss(); }, 12);
  check_findings({"module-mode warning backbone.norm - frozen_norm_updates aten::batch_norm"});
}

TEST_CASE("Frozen normalisation in eval mode is silent") {
  Tuned net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.head->parameters(), 0.01);
  net.train();
  net.backbone->eval();
  train(
      optimizer, [&] { return net.loss(); }, 12);
  check_silent();
}

TEST_CASE("Normalisation that trains its weights is silent") {
  struct Normed : Module {
    at::Tensor loss() { return head(backbone(input())).square().mean(); }
    Backbone backbone = register_module("backbone", Backbone());
    Linear head = register_module("head", Linear(8, 2));
  } net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  train(
      optimizer, [&] { return net.loss(); }, 12);
  check_silent();
}

TEST_CASE("An eval that is never undone is found") {
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  train(
      optimizer, [&] { return net->loss(); }, 3);
  net->eval();
  train(
      optimizer, [&] { return net->loss(); }, 14);
  check_findings({"module-mode warning - - eval_while_training -"});
}

TEST_CASE("Functional dropout that trains in an evaluation is found") {
  Dropping net;
  net.drop = [](const at::Tensor& x) { return torch::dropout(x, 0.5, /*train=*/true); };
  train_and_evaluate(net);
  check_findings({"module-mode warning - - training_op_in_eval aten::dropout"});
}

TEST_CASE("Functional dropout that follows the mode is silent") {
  Dropping net;
  net.drop = [&](const at::Tensor& x) { return torch::dropout(x, 0.5, net.is_training()); };
  train_and_evaluate(net);
  check_silent();
}

TEST_CASE("Dropout with probability zero is silent") {
  Dropping net;
  net.drop = [](const at::Tensor& x) { return torch::dropout(x, 0, /*train=*/true); };
  train_and_evaluate(net);
  check_silent();
}

TEST_CASE("An unregistered dropout layer that ignores eval is found") {
  Dropping net;
  torch::nn::Dropout2d layer(0.5);
  net.drop = [&](const at::Tensor& x) { return layer(x.view({5, 8, 1, 1})).view({5, 8}); };
  train_and_evaluate(net);
  check_findings({"module-mode warning - - training_op_in_eval aten::feature_dropout"});
  const auto all = findings();
  CHECK(std::get<bool>(all.at(0).facts.at("unregistered")));
}

TEST_CASE("A registered dropout layer is silent") {
  Dropping net;
  torch::nn::Dropout layer = net.register_module("drop", torch::nn::Dropout(0.5));
  net.drop = [&](const at::Tensor& x) { return layer(x); };
  train_and_evaluate(net);
  check_silent();
}

TEST_CASE("Layers that always normalise by the batch are silent") {
  Dropping net;
  torch::nn::InstanceNorm1d instance =
      net.register_module("instance", torch::nn::InstanceNorm1d(8));
  BatchNorm1d batch = net.register_module(
      "batch", BatchNorm1d(torch::nn::BatchNormOptions(8).track_running_stats(false)));
  net.drop = [&](const at::Tensor& x) {
    return batch(instance(x.view({5, 8, 1}).expand({5, 8, 3})).sum(2));
  };
  train_and_evaluate(net);
  check_silent();
}

TEST_CASE("Statistics that are estimated again are silent") {
  Backbone net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  train(optimizer, [&] { return net(input()).square().mean(); });
  {
    const torch::NoGradGuard guard;
    for (int i = 0; i < 12; ++i) net(input());
  }
  check_silent();
}

TEST_CASE("A student that learns from a teacher in eval mode is silent") {
  Dropping student;
  Net teacher;
  student.drop = [&](const at::Tensor& x) { return torch::dropout(x, 0.5, student.is_training()); };
  attach_diagnostics(student, quiet());
  attach_diagnostics(teacher, quiet());
  for (at::Tensor& parameter : teacher->parameters()) parameter.requires_grad_(false);
  teacher->eval();
  SGD optimizer(student.parameters(), 0.01);
  train(optimizer, [&] {
    student.evaluate(2);
    return student.loss() + teacher->loss();
  });
  check_silent();
}

namespace {
void set_trainable(Linear& layer, bool trainable) {
  for (at::Tensor& parameter : layer->parameters()) parameter.requires_grad_(trainable);
}

at::Tensor both_losses(Side& net) { return net->main_loss() + net->side(input()).square().mean(); }
}  // namespace

TEST_CASE("A part that is unfrozen late and given to no optimizer is found") {
  Side net;
  set_trainable(net->side, false);
  attach_diagnostics(net, quiet());
  SGD optimizer(net->body->parameters(), 0.01);
  train(optimizer, [&] { return both_losses(net); });
  set_trainable(net->side, true);
  train(optimizer, [&] { return both_losses(net); });
  check_findings({"module-trainable-changed warning side - - -",
                  "optim-missing-parameter error side - group_omits -"});
  const auto all = findings();
  const Finding* cause = find(all, "module-trainable-changed");
  REQUIRE(cause != nullptr);
  CHECK(std::get<std::int64_t>(cause->facts.at("at_step")) == 9);
  CHECK(find(all, "optim-missing-parameter")->caused_by == cause->fingerprint);
}

TEST_CASE("A part that is unfrozen and given to an optimizer is silent") {
  Side net;
  set_trainable(net->side, false);
  attach_diagnostics(net, quiet());
  SGD optimizer(net->body->parameters(), 0.01);
  train(optimizer, [&] { return both_losses(net); });
  set_trainable(net->side, true);
  optimizer.add_param_group(torch::optim::OptimizerParamGroup(net->side->parameters()));
  train(optimizer, [&] { return both_losses(net); });
  check_silent();
  CHECK(find(findings(), "module-trainable-changed") == nullptr);
}

TEST_CASE("A part that is frozen in one step of each cycle is silent") {
  Side net;
  attach_diagnostics(net, quiet());
  SGD for_body(net->body->parameters(), 0.01);
  SGD for_side(net->side->parameters(), 0.01);
  for (int i = 0; i < 8; ++i) {
    set_trainable(net->side, false);
    train(
        for_body, [&] { return net->main_loss(); }, 1);
    set_trainable(net->side, true);
    train(
        for_side, [&] { return net->side(input()).square().mean(); }, 1);
  }
  check_silent();
  CHECK(find(findings(), "module-trainable-changed") == nullptr);
}

}  // namespace ddpscope::test
