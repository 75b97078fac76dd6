// What is told of values in runs of which most cycles are not read: by hooks that rest, or by
// passes over values that do.
#include <algorithm>
#include <chrono>
#include <thread>
#include <variant>

#include "tests/support/torch_test.h"

namespace ddpscope::test::rested_values_test {
namespace {
using torch::optim::SGD;

at::Tensor infinite_slope(const at::Tensor& x) { return (x - x.detach()).sqrt(); }
at::Tensor infinite_quotient(const at::Tensor& x) { return x / (x - x.detach()); }

/// In which step this was told that a program makes in step `bad`, whose passes over values rest
/// in some cycles; 255 if not, or if another error was.
int told_step(int bad, at::Tensor (*spoilt)(const at::Tensor&), const char* id) {
  const Outcome outcome = in_child([=] {
    // Its gradients take longer to read than the budget allows in each step; its calls do not.
    torch::nn::Sequential net(torch::nn::Linear(1024, 1024), torch::nn::ReLU(),
                              torch::nn::Linear(1024, 1024));
    Options options = quiet();
    options.full_cycles = 8;
    options.overhead = 5;
    attach_diagnostics(net, options);
    SGD optimizer(net->parameters(), 1e-4);
    for (int step = 1; step <= bad + 1; ++step) {
      optimizer.zero_grad();
      const at::Tensor out = net->forward(torch::randn({2, 1024}));
      (step == bad ? spoilt(out) : out.square()).mean().backward();
      optimizer.step();
      std::this_thread::sleep_for(std::chrono::milliseconds(15));
    }
    const auto all = findings();
    const Finding* found = find(all, id);
    const auto is_other = [id](const Finding& finding) {
      return finding.id != id && finding.id != "numeric-nonfinite-gradient" &&
             finding.severity == "error";
    };
    if (found == nullptr || std::ranges::any_of(all, is_other)) return 255;
    return static_cast<int>(found->step);
  });
  return outcome.exit_code;
}
}  // namespace

TEST_CASE("A slope that is infinite where values are not read is told in its step") {
  for (const int bad : {61, 62, 63, 64}) {
    CHECK(told_step(bad, infinite_slope, "numeric-nonfinite-backward") == bad);
  }
}

TEST_CASE("A loss that is infinite where values are not read is told in its step, and once") {
  for (const int bad : {61, 62, 63, 64}) {
    CHECK(told_step(bad, infinite_quotient, "numeric-nonfinite-forward") == bad);
  }
}

TEST_CASE("A leaf of no optimizer whose gradient is not finite is silent in a rest") {
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 1e-3);
  const at::Tensor shift = torch::zeros({1}, torch::requires_grad());
  for (int step = 1; step <= 400; ++step) {
    optimizer.zero_grad();
    net->forward(input() + shift.sqrt()).square().mean().backward();  // its slope is infinite
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
  CHECK(std::ranges::count(all, "optim-update-size", &Finding::id) == 1);
  const Finding& found = only(all, "optim-update-size");
  CHECK(found.step == 16);
  CHECK(std::get<std::int64_t>(found.facts.at("elements")) == 212);  // all of them
}

}  // namespace ddpscope::test::rested_values_test
