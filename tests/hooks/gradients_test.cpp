// Watching gradients changes nothing about them.
#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const void* handed_out = nullptr;

struct HandsOut : torch::autograd::Function<HandsOut> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    context->saved_data["size"] = x.sizes();
    return x.sum();
  }
  static variable_list backward(AutogradContext* context, variable_list) {
    at::Tensor gradient = torch::ones(context->saved_data["size"].toIntVector());
    handed_out = gradient.data_ptr();
    return {std::move(gradient)};
  }
};
}  // namespace

TEST_CASE("A gradient is stolen and not copied") {
  at::Tensor parameter = torch::randn({64, 64}, torch::requires_grad());
  attach_diagnostics(NamedTensors{{"parameter", parameter}}, quiet());
  torch::optim::SGD optimizer({parameter}, 0.01);
  for (int i = 0; i < 6; ++i) {
    optimizer.zero_grad();
    HandsOut::apply(parameter).backward();
    CHECK(parameter.grad().data_ptr() == handed_out);
    optimizer.step();
  }
  check_silent();
}

TEST_CASE("Hooks of the program run as before") {
  at::Tensor parameter = torch::randn({4, 4}, torch::requires_grad());
  attach_diagnostics(NamedTensors{{"parameter", parameter}}, quiet());
  int calls = 0;
  parameter.register_hook([&](const at::Tensor& gradient) {
    ++calls;
    return gradient * 2;
  });
  parameter.sum().backward();
  CHECK(calls == 1);
  CHECK(parameter.grad().equal(torch::full({4, 4}, 2.0)));
}

TEST_CASE("An exception of LibTorch keeps its type and text") {
  torch::nn::Linear layer(4, 2);
  const auto text = [&] {
    try {
      layer(torch::ones({3, 5}));
    } catch (const c10::Error& error) {
      return std::string(error.what_without_backtrace());
    }
    return std::string();
  };
  const std::string before = text();
  CHECK(!before.empty());
  attach_diagnostics(layer, quiet());
  CHECK(text() == before);
}

}  // namespace ddpscope::test
