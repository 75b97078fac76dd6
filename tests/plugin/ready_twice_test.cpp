// Programs that call backward inside backward, with and without gradient hooks.
#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Runs the layer twice in forward and again, with a backward each, in backward.
struct Recompute : torch::autograd::Function<Recompute> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, Net net) {
    context->save_for_backward({x});
    context->saved_data["net"] = reinterpret_cast<std::int64_t>(net.get());
    return net->forward(x) + net->forward(2 * x);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    auto* const net = reinterpret_cast<NetImpl*>(context->saved_data["net"].toInt());
    const at::Tensor x = context->get_saved_variables()[0].detach().requires_grad_();
    for (const double factor : {1.0, 2.0}) {
      const torch::AutoGradMode on(true);
      torch::autograd::backward({net->forward(factor * x)}, {gradients[0]});
    }
    return {x.grad(), at::Tensor()};
  }
};

void train_recomputed(Net& net) {
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  train(optimizer, [&] {
    const at::Tensor x = torch::randn({5, 8}, torch::requires_grad());
    return Recompute::apply(x, net).square().mean();
  });
}
}  // namespace

TEST_CASE("Gradients that hooks take twice in one backward are noted in one process") {
  Net net;
  attach_diagnostics(net, quiet());
  for (auto& parameter : net->parameters()) {
    parameter.register_hook([](const at::Tensor& gradient) { return gradient / 2; });
  }
  train_recomputed(net);
  check_silent();
  const auto all = findings();
  const Finding* found = find(all, "autograd-ready-twice");
  REQUIRE(found != nullptr);
  CHECK(found->severity == "note");
  CHECK(text_fact(*found, "cause") == "nested_backward");
  CHECK(text_fact(*found, "launching_node").find("Recompute") != std::string::npos);
}

TEST_CASE("A nested backward without gradient hooks is silent") {
  Net net;
  attach_diagnostics(net, quiet());
  train_recomputed(net);
  check_silent();
}

TEST_CASE("Micro-batches with gradient hooks are silent") {
  Net net;
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  for (auto& parameter : net->parameters()) {
    parameter.register_hook([](const at::Tensor& gradient) { return gradient / 2; });
  }
  for (int i = 0; i < 6; ++i) {
    optimizer.zero_grad();
    net->loss().backward();
    net->loss().backward();
    optimizer.step();
  }
  check_silent();
}

}  // namespace ddpscope::test
