// NaN and Inf whose origin lies next to what does not make them.
#include <cmath>

#include "tests/support/torch_test.h"

namespace ddpscope::test::nonfinite_origins_test {
namespace {
constexpr double kRate = 0.01;

struct AttentionImpl : torch::nn::Module {
  torch::nn::Linear query{register_module("query", torch::nn::Linear(8, 8))};
  torch::nn::Linear key{register_module("key", torch::nn::Linear(8, 8))};
  /// `lengths`: of each sequence; what lies behind is padding.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& lengths) {
    const at::Tensor padding = torch::arange(x.size(1)).unsqueeze(0) >= lengths.unsqueeze(1);
    at::Tensor scores = torch::bmm(query(x), key(x).transpose(1, 2)) / std::sqrt(8.0);
    scores = scores.masked_fill(padding.unsqueeze(1), -INFINITY);
    return torch::bmm(torch::softmax(scores, -1), x);
  }
};
TORCH_MODULE(Attention);

/// Steps in half with a loss scale that is halved where a gradient is not finite.
int train_in_half(torch::nn::Linear& net, double divisor) {
  torch::optim::SGD optimizer(net->parameters(), kRate);
  double scale = 1 << 18;
  int skipped = 0;
  for (int i = 0; i < 12; ++i) {
    optimizer.zero_grad();
    const at::Tensor x = torch::ones({4, 8}, at::kHalf);
    (torch::mse_loss(net(x), x.narrow(1, 0, 2)) * scale / divisor).backward();
    const bool finite = torch::isfinite(net->weight.grad()).all().item<bool>();
    if (finite) {
      for (at::Tensor& parameter : net->parameters()) parameter.mutable_grad().div_(scale);
      optimizer.step();
    } else {
      scale /= 2;
      ++skipped;
    }
  }
  return skipped;
}
}  // namespace

TEST_CASE("A row of attention that is all padding is not blamed on the scale before it") {
  Attention net;
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net->parameters(), kRate);
  for (int i = 1; i <= 6; ++i) {
    optimizer.zero_grad();
    const at::Tensor lengths = torch::tensor({3, i == 5 ? 0 : 6});
    net(torch::randn({2, 6, 8}), lengths).square().mean().backward();
    optimizer.step();
  }
  const auto all = findings();
  const Finding* found = find(all, "numeric-nonfinite-forward");
  REQUIRE(found != nullptr);
  CHECK(found->step == 5);
  CHECK(found->op == "aten::masked_fill");
}

TEST_CASE("A hook of the program's own that divides by zero is told in its step") {
  torch::nn::Sequential net(torch::nn::Linear(8, 4), torch::nn::ReLU(), torch::nn::Linear(4, 2));
  attach_diagnostics(net, quiet());
  net->parameters()[2].register_hook([](const at::Tensor& g) { return g / g.norm(); });
  torch::optim::SGD optimizer(net->parameters(), kRate);
  for (int i = 1; i <= 6; ++i) {
    optimizer.zero_grad();
    (net->forward(torch::randn({4, 8})).square().mean() * (i == 4 ? 0.0 : 1.0)).backward();
    optimizer.step();
  }
  check_findings({"numeric-nonfinite-gradient error 2 weight - -"});
  CHECK(findings().front().step == 4);
  CHECK(findings().front().why.find("the program's own hook") != std::string::npos);
}

TEST_CASE("A scaled loss that overflows while its gradients do not is silent") {
  torch::nn::Linear net(8, 2);
  net->to(torch::kHalf);
  attach_diagnostics(net, quiet());
  SECTION("of the root") { CHECK(train_in_half(net, 1) > 0); }
  SECTION("divided after it") { train_in_half(net, 8); }
  check_silent();
}

}  // namespace ddpscope::test::nonfinite_origins_test
