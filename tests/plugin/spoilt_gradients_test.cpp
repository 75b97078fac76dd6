// Programs that make NaN of gradients which backward left finite.
#include <cmath>

#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
constexpr int kSteps = 6;
constexpr int kSpoiltStep = 4;
constexpr char kCheck[] = "numeric-nonfinite-gradient";

struct TwoLayers : torch::nn::Module {
  torch::nn::Linear first{register_module("first", torch::nn::Linear(8, 16))};
  torch::nn::Linear second{register_module("second", torch::nn::Linear(16, 2))};
  at::Tensor loss(const at::Tensor& x) { return second(first(x).relu()).square().mean(); }
};

/// `edit` changes gradients between each backward and its step.
void train_with(const std::function<void(TwoLayers&, int)>& edit) {
  TwoLayers net;
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net.parameters(), 0.01);
  for (int i = 1; i <= kSteps; ++i) {
    optimizer.zero_grad();
    net.loss(torch::randn({4, 8})).backward();
    edit(net, i);
    optimizer.step();
  }
}
}  // namespace

TEST_CASE("A gradient that the program makes NaN is found with what wrote it") {
  train_with([](TwoLayers& net, int step) {
    if (step != kSpoiltStep) return;
    const at::Tensor gradient = net.first->weight.mutable_grad();
    gradient.mul_(0);
    gradient.div_(gradient.norm());
  });
  const auto all = findings();
  const Finding& found = only(all, kCheck);
  CHECK(found.severity == "error");
  CHECK(found.step == kSpoiltStep);
  CHECK(found.module_path == "first");
  CHECK(found.subject == "weight");
  CHECK(found.op.empty());  // either may have made it so
  CHECK(found.what ==
        "the gradient was not finite when the optimizer stepped, though backward left it finite: "
        "128 of 128 elements are NaN");
  CHECK(found.why.find("2 writes changed it since, the first by aten::mul_") != std::string::npos);
  CHECK(found.why.find(", the last by aten::div_; the optimizer stepped") != std::string::npos);
  CHECK(text_fact(found, "cause") == "written_after_backward");
  CHECK(find(all, "numeric-nonfinite-forward") == nullptr);
}

TEST_CASE("A gradient that one operator made NaN is found with it") {
  train_with([](TwoLayers& net, int step) {
    if (step == kSpoiltStep) net.second->bias.mutable_grad().fill_(NAN);
  });
  const auto all = findings();
  const Finding& found = only(all, kCheck);
  CHECK(found.subject == "bias");
  CHECK(found.op == "aten::fill_");
}

TEST_CASE("NaN that a clip has spread is left to the check of clips") {
  train_with([](TwoLayers& net, int step) {
    if (step == kSpoiltStep) net.second->bias.mutable_grad().fill_(NAN);
    torch::nn::utils::clip_grad_norm_(net.parameters(), 1.0);
  });
  const auto all = findings();
  for (const Finding& finding : all) {
    CHECK((finding.id != kCheck || finding.step > kSpoiltStep));  // of what the weights give then
  }
  CHECK(text_fact(only(all, "clip-nonfinite-norm"), "cause") == "written_after_backward");
}

TEST_CASE("Gradients that the program spoils and repairs are silent") {
  train_with([](TwoLayers& net, int step) {
    const at::Tensor gradient = net.first->weight.mutable_grad();
    if (step != kSpoiltStep) return void(gradient.mul_(0.5));
    gradient.div_(0);
    gradient.nan_to_num_(0.0, 0.0, 0.0);
  });
  check_silent();
}

}  // namespace ddpscope::test
