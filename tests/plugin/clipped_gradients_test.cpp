// Gradients that programs scale and clip between backward and step.
#include <cmath>
#include <limits>

#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
using torch::optim::SGD;
constexpr double kScale = 4096;
constexpr double kLimit = 0.001;

std::vector<at::Tensor> gradients_of(Net& net) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : net->parameters()) gradients.push_back(parameter.grad());
  return gradients;
}

/// Steps of which `between` runs after backward.
void run(Net& net, const std::function<void()>& between, int steps = 6) {
  SGD optimizer(net->parameters(), 1e-3);
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    (net->loss() * kScale).backward();
    between();
    optimizer.step();
  }
}

void divide(Net& net) {
  for (const at::Tensor& gradient : gradients_of(net)) gradient.div_(kScale);
}

void clip(Net& net) { torch::nn::utils::clip_grad_norm_(net->parameters(), kLimit); }

void clip_in_16_bits(at::ScalarType type) {
  Net net;
  net->to(type);
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 1e-3);
  for (int i = 0; i < 6; ++i) {
    optimizer.zero_grad();
    const at::Tensor output = net->forward(input().to(type)).to(at::kFloat);
    (output.square().mean() * 512).backward();
    torch::nn::utils::clip_grad_norm_(net->parameters(), 0.001);
    for (const at::Tensor& gradient : gradients_of(net)) gradient.div_(512);
    optimizer.step();
  }
  const auto all = findings();
  CHECK(find(all, "clip-before-unscale") != nullptr);
}

const std::vector<std::string> kClippedFirst = {"clip-before-unscale error - - - -"};
}  // namespace

TEST_CASE("A clip before the loss scale is divided out is found") {
  Net net;
  attach_diagnostics(net, quiet());
  run(net, [&] {
    clip(net);
    divide(net);
  });
  check_findings(kClippedFirst);
}

TEST_CASE("A clip to the norm 0 is found in its first step") {
  Net net;
  attach_diagnostics(net, quiet());
  run(
      net, [&] { torch::nn::utils::clip_grad_norm_(net->parameters(), 0); }, /*steps=*/2);
  const auto all = findings();
  const Finding* found = find(all, "clip-always-active");
  REQUIRE(found != nullptr);
  CHECK(text_fact(*found, "cause") == "zero_limit");
  CHECK(found->step == 1);
}

TEST_CASE("A clip before a list of gradients is divided is found") {
  Net net;
  attach_diagnostics(net, quiet());
  run(net, [&] {
    clip(net);
    torch::_foreach_mul_(gradients_of(net), 1 / kScale);
  });
  check_findings(kClippedFirst);
}

TEST_CASE("A clip before a division through data() by a tensor is found") {
  Net net;
  attach_diagnostics(net, quiet());
  const at::Tensor scale = torch::full({}, kScale);
  run(net, [&] {
    clip(net);
    for (const at::Tensor& gradient : gradients_of(net)) gradient.data().div_(scale);
  });
  check_findings(kClippedFirst);
}

TEST_CASE("A clip before the loss scale is divided out into new gradients is found") {
  Net net;
  attach_diagnostics(net, quiet());
  run(net, [&] {
    clip(net);
    for (at::Tensor& parameter : net->parameters()) {
      parameter.mutable_grad() = parameter.grad() / kScale;
    }
  });
  check_findings(kClippedFirst);
}

namespace {
/// Weights in half precision, which follow those in float32 that the optimizer holds.
void train_masters(bool clips_scaled) {
  constexpr double kHalfScale = 512;
  Net net;
  net->to(at::kHalf);
  attach_diagnostics(net, quiet());
  const std::vector<at::Tensor> weights = net->parameters();
  std::vector<at::Tensor> masters;
  for (const at::Tensor& weight : weights) {
    masters.push_back(weight.detach().to(at::kFloat).requires_grad_());
  }
  SGD optimizer(masters, 1e-3);
  for (int i = 0; i < 6; ++i) {
    net->zero_grad();
    const at::Tensor output = net->forward(input().to(at::kHalf)).to(at::kFloat);
    (output.square().mean() * kHalfScale).backward();
    if (clips_scaled) torch::nn::utils::clip_grad_norm_(weights, kLimit);
    for (std::size_t k = 0; k < weights.size(); ++k) {
      masters[k].mutable_grad() = weights[k].grad().to(at::kFloat) / kHalfScale;
    }
    if (!clips_scaled) torch::nn::utils::clip_grad_norm_(masters, kLimit);
    optimizer.step();
    const torch::NoGradGuard guard;
    for (std::size_t k = 0; k < weights.size(); ++k) weights[k].copy_(masters[k]);
  }
}
}  // namespace

TEST_CASE("A clip before the loss scale is divided out into gradients of masters is found") {
  train_masters(/*clips_scaled=*/true);
  const auto all = findings();
  CHECK(find(all, "clip-before-unscale") != nullptr);
}

TEST_CASE("A clip of the masters, whose gradients carry no loss scale, is none") {
  train_masters(/*clips_scaled=*/false);
  const auto all = findings();
  CHECK(find(all, "clip-before-unscale") == nullptr);
}

TEST_CASE("A clip of gradients whose scale is the argument of backward is found") {
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 1e-3);
  for (int i = 0; i < 6; ++i) {
    optimizer.zero_grad();
    net->loss().backward(torch::full({}, kScale));
    clip(net);
    divide(net);
    optimizer.step();
  }
  check_findings(kClippedFirst);
}

TEST_CASE("A clip of new gradients without the loss scale is none") {
  Net net;
  attach_diagnostics(net, quiet());
  run(net, [&] {
    for (at::Tensor& parameter : net->parameters()) {
      parameter.mutable_grad() = parameter.grad() / kScale;
    }
    clip(net);
  });
  check_silent();
}

TEST_CASE("A clip of the program's own before the loss scale is divided out is found") {
  Net net;
  attach_diagnostics(net, quiet());
  run(net, [&] {
    at::Tensor squares = torch::zeros({});
    for (const at::Tensor& gradient : gradients_of(net)) {
      squares = squares + gradient.square().sum();
    }
    const at::Tensor factor = (kLimit / (squares.sqrt() + 1e-6)).clamp_max(1);
    torch::_foreach_mul_(gradients_of(net), factor);
    divide(net);
  });
  check_findings(kClippedFirst);
}

TEST_CASE("A clip of float16 gradients before the loss scale is divided out is found") {
  clip_in_16_bits(at::kHalf);
}

TEST_CASE("A clip of bfloat16 gradients before the loss scale is divided out is found") {
  clip_in_16_bits(at::kBFloat16);
}

TEST_CASE("A clip after the loss scale was divided out is none") {
  Net net;
  attach_diagnostics(net, quiet());
  run(net, [&] {
    divide(net);
    clip(net);
  });
  check_silent();
}

TEST_CASE("A clip of other tensors than gradients is none") {
  Net net;
  attach_diagnostics(net, quiet());
  run(net, [&] {
    auto copies = gradients_of(net);
    for (at::Tensor& copy : copies) copy = copy.clone();
    torch::_foreach_mul_(copies, kLimit);
    divide(net);
  });
  check_silent();
}

TEST_CASE("A clip with a norm that is not a number is found once the optimizer steps") {
  Net net;
  attach_diagnostics(net, quiet());
  run(
      net,
      [&] {
        divide(net);
        net->second->bias.grad()[0].fill_(std::numeric_limits<float>::quiet_NaN());
        clip(net);
      },
      /*steps=*/1);
  const auto found = findings();
  const Finding* finding = find(found, "clip-nonfinite-norm");
  REQUIRE(finding != nullptr);
  CHECK(finding->what == "total gradient norm is NaN; clipping set all 4 gradients to NaN");
}

TEST_CASE("A clip with a norm that is not a number is none where the step is left out") {
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 1e-3);
  for (int i = 0; i < 6; ++i) {
    optimizer.zero_grad();
    net->loss().backward();
    if (i == 2) net->second->bias.grad()[0].fill_(std::numeric_limits<float>::quiet_NaN());
    const double norm = torch::nn::utils::clip_grad_norm_(net->parameters(), kLimit);
    if (std::isfinite(norm)) optimizer.step();
  }
  check_silent();
}

}  // namespace ddpscope::test
