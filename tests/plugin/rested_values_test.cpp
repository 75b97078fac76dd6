// What is told of values in runs of which most cycles are not read: by hooks that rest, or by
// passes over values that do.
#include "tests/support/torch_test.h"

namespace ddpscope::test::rested_values_test {
namespace {
using torch::optim::SGD;

torch::nn::Sequential wide(int width) {
  return torch::nn::Sequential(torch::nn::Linear(width, width), torch::nn::ReLU(),
                               torch::nn::Linear(width, width));
}

/// In which step an infinite slope was told that is made in step `bad`.
int told_step(int bad) {
  const Outcome outcome = in_child([bad] {
    torch::nn::Sequential net = wide(1024);  // its gradients take longer to read than a step may
    attach_diagnostics(net, quiet());
    SGD optimizer(net->parameters(), 1e-4);
    for (int step = 1; step <= bad + 1; ++step) {
      optimizer.zero_grad();
      const at::Tensor out = net->forward(torch::randn({2, 1024}));
      (step == bad ? (out - out.detach()).sqrt() : out.square()).mean().backward();
      optimizer.step();
    }
    const auto all = findings();
    const Finding* found = find(all, "numeric-nonfinite-backward");
    return found == nullptr ? 0 : static_cast<int>(found->step);
  });
  return outcome.exit_code;
}
}  // namespace

TEST_CASE("A slope that is infinite where values are not read is told in its step") {
  for (const int bad : {101, 102, 103, 104}) CHECK(told_step(bad) == bad);
}

TEST_CASE("A batch whose own gradient is not finite is silent in a rest") {
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 1e-3);
  for (int step = 1; step <= 400; ++step) {
    optimizer.zero_grad();
    const at::Tensor batch = input().requires_grad_();
    const at::Tensor root = (batch - batch.detach()).sqrt();  // its slope is infinite
    net->forward(batch.detach() + root).square().mean().backward();
    optimizer.step();
  }
  const auto all = findings();
  CHECK(find(all, "numeric-nonfinite-backward") == nullptr);
  CHECK(find(all, "numeric-nonfinite-gradient") == nullptr);
}

TEST_CASE("A learning rate of 0 is found where hooks rest in nearly all steps") {
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), /*lr=*/0);
  train(
      optimizer, [&] { return net->loss(); }, 8000);
  const auto all = findings();
  const Finding* found = find(all, "optim-update-size");
  REQUIRE(found != nullptr);
  CHECK(found->what.find("in 4 sampled steps") != std::string::npos);
}

}  // namespace ddpscope::test::rested_values_test
