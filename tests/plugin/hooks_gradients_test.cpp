// Gradients that hooks are given equal those of autograd.
#include "tests/plugin/gradient_recorder.h"

namespace ddpscope::test {
namespace {
using torch::nn::Linear;
using torch::nn::ReLU;
using torch::nn::ReLUOptions;
using torch::nn::Sequential;

// Hooks on all modules tell what autograd::grad says.
template <class Loss>
void check_oracle(const HookTarget& root, const Loss& make_loss) {
  Recorder recorder(root);
  const at::Tensor loss = make_loss();
  const auto expected = recorder.oracle(loss);
  CHECK(!expected.empty());
  recorder.told.clear();
  loss.backward();
  check_same(recorder.told, expected);
}
}  // namespace

TEST_CASE("Gradients of a convolution net are those of autograd") {
  using namespace torch::nn;
  Sequential net(Conv2d(1, 4, 3), BatchNorm2d(4), ReLU(), MaxPool2d(2), Flatten(), Linear(36, 3));
  check_oracle(net, [&] { return net->forward(torch::randn({2, 1, 8, 8})).square().mean(); });
  check_oracle(net, [&] {
    return net->forward(torch::randn({2, 1, 8, 8}, torch::requires_grad())).square().mean();
  });
}

TEST_CASE("In-place activations go on working under backward hooks") {
  const auto make = [](bool in_place) {
    torch::manual_seed(1);
    const ReLUOptions options(in_place);
    return Sequential(Linear(8, 8), ReLU(options), Linear(8, 8), ReLU(options), Linear(8, 2));
  };
  Sequential plain = make(false);
  Sequential in_place = make(true);
  const at::Tensor input = torch::randn({3, 8});
  Recorder expected(plain);
  Recorder recorder(in_place);
  const at::Tensor loss = plain->forward(input).square().mean();
  const auto oracle = expected.oracle(loss);
  loss.backward();
  in_place->forward(input).square().mean().backward();
  check_same(recorder.told, oracle);
  CHECK(plain->parameters()[0].grad().equal(in_place->parameters()[0].grad()));
}

TEST_CASE("Gradients of an LSTM whose states are not used are those of autograd") {
  torch::nn::LSTM lstm(4, 6);
  const at::Tensor input = torch::randn({5, 2, 4}, torch::requires_grad());
  SECTION("output alone") {
    check_oracle(lstm, [&] { return std::get<0>(lstm(input)).square().mean(); });
  }
  SECTION("output and state") {
    check_oracle(lstm, [&] {
      const auto [output, state] = lstm(input);
      return output.mean() + std::get<1>(state).square().mean();
    });
  }
  SECTION("input without gradient") {
    check_oracle(lstm, [&] {
      const auto [output, state] = lstm(input.detach());
      return output.mean() + std::get<0>(state).square().mean();
    });
  }
}

TEST_CASE("An input that others use too has its total gradient") {
  Sequential net(Linear(4, 4), ReLU());
  const at::Tensor input = torch::randn({2, 4}, torch::requires_grad());
  check_oracle(net, [&] { return (net->forward(input * 2) + input.exp()).square().mean(); });
  torch::nn::Bilinear both(4, 4, 3);
  check_oracle(both, [&] {
    const at::Tensor shared = input * 2;
    return both(shared, shared).square().mean() + shared.sum();
  });
  check_oracle(both, [&] { return both(input * 2, torch::randn({2, 4})).square().mean(); });
}

TEST_CASE("A module that hands its input on tells the same gradient twice") {
  Sequential net(Linear(4, 4), torch::nn::Identity(), Linear(4, 2));
  check_oracle(net, [&] { return net->forward(torch::randn({3, 4})).square().mean(); });
}
}  // namespace ddpscope::test
