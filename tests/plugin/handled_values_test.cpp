// NaN that the program tests for, means over nothing, and targets that are no probabilities.
#include <cmath>

#include "tests/support/torch_test.h"

namespace ddpscope::test::handled_values_test {
namespace {
namespace F = torch::nn::functional;

/// The fifth of eight batches is `bad`; `takes`: whether the program steps with it.
void train_with(const std::function<at::Tensor(const at::Tensor& y, bool bad)>& loss,
                const std::function<bool(const at::Tensor& loss, double norm)>& takes) {
  torch::manual_seed(1);
  Net net;
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  for (int i = 1; i <= 8; ++i) {
    optimizer.zero_grad();
    at::Tensor x = torch::randn({8, 8});
    const at::Tensor value = loss(net(x), i == 5);
    value.backward();
    const double norm = torch::nn::utils::clip_grad_norm_(net->parameters(), 1.0);
    if (takes(value, norm)) optimizer.step();
  }
}

bool always(const at::Tensor&, double) { return true; }

/// What is said of the NaN of step 5.
Finding told() {
  const auto all = findings();
  const Finding found = only(all, "numeric-nonfinite-forward");
  CHECK(found.step == 5);
  return found;
}

at::Tensor spoilt(const at::Tensor& y, bool bad) {
  return (bad ? (y.abs() * 1e4).exp() : y).square().mean();
}
}  // namespace

TEST_CASE("A step that is left out because of its norm is noted") {
  train_with(spoilt, [](const at::Tensor&, double norm) { return std::isfinite(norm); });
  CHECK(told().severity == "note");
  CHECK(told().why.find("; the program left out the step") != std::string::npos);
}

TEST_CASE("A step that is left out because of its loss alone is noted") {
  train_with(spoilt,
             [](const at::Tensor& loss, double) { return std::isfinite(loss.item<double>()); });
  CHECK(told().severity == "note");
}

TEST_CASE("A step that is made with what is not finite is an error") {
  train_with(spoilt, always);
  CHECK(told().severity == "error");
}

TEST_CASE("The mean over an empty mask is the division, not the power before it") {
  train_with(
      [](const at::Tensor& y, bool bad) {
        const at::Tensor mask = bad ? torch::zeros({8, 4}) : torch::ones({8, 4});
        return (y.pow(2) * mask).sum() / mask.sum();
      },
      always);
  CHECK(told().op == "aten::div");
  CHECK(told().what.ends_with("its divisor is 0"));
}

TEST_CASE("The cross entropy of no target is told as that") {
  train_with(
      [](const at::Tensor& y, bool bad) {
        return F::cross_entropy(y, torch::full({8}, bad ? -100 : 1, at::kLong));
      },
      always);
  CHECK(told().op == "aten::nll_loss");
  CHECK(told().what.find("the mean over no target") != std::string::npos);
}

TEST_CASE("Targets of -1 and 1 are a warning with logits") {
  train_with(
      [](const at::Tensor& y, bool) {
        return F::binary_cross_entropy_with_logits(y, torch::full({8, 4}, -1.0));
      },
      always);
  const auto all = findings();
  const Finding& found = only(all, "loss-target-range");
  CHECK(found.severity == "warning");
  CHECK(found.op == "aten::binary_cross_entropy_with_logits");
}

TEST_CASE("Logits in the place of their targets are told") {
  train_with(
      [](const at::Tensor& y, bool) {
        return F::binary_cross_entropy_with_logits(torch::ones({8, 4}), y * 1000);
      },
      always);
  const auto all = findings();
  const Finding& found = only(all, "loss-target-range");
  CHECK(found.severity == "warning");
  CHECK(found.op == "aten::binary_cross_entropy_with_logits");
}

TEST_CASE("Targets with logits that are smoothed, masked or weighted are silent") {
  train_with(
      [](const at::Tensor& y, bool) {
        const at::Tensor labels = torch::arange(32).remainder(2).to(at::kFloat).view({8, 4});
        const auto none = F::BinaryCrossEntropyWithLogitsFuncOptions().reduction(torch::kNone);
        const auto weighted = F::BinaryCrossEntropyWithLogitsFuncOptions().weight(labels);
        const at::Tensor unknown = labels * 2 - 1;  // -1: no label
        return F::binary_cross_entropy_with_logits(y, labels * 0.9 + 0.3) +
               (F::binary_cross_entropy_with_logits(y, unknown, none) * labels).mean() +
               F::binary_cross_entropy_with_logits(y, unknown, weighted);
      },
      always);
  check_silent();
}

TEST_CASE("Logarithms as targets of a divergence are told as the origin of its NaN") {
  const auto batch_mean = F::KLDivFuncOptions().reduction(torch::kBatchMean);
  train_with(
      [&](const at::Tensor& y, bool bad) {
        const at::Tensor logits = torch::randn({8, 4});
        const at::Tensor target = bad ? logits.log_softmax(1) : logits.softmax(1);
        return F::kl_div(y.log_softmax(1), target, batch_mean);
      },
      always);
  const auto all = findings();
  const Finding* found = find(all, "loss-target-range");
  REQUIRE(found != nullptr);
  CHECK(found->op == "aten::kl_div");
  CHECK(found->what.starts_with("32 of 32 targets are outside [0, ...]: minimum -"));
  CHECK(find(all, "numeric-nonfinite-forward")->caused_by == found->fingerprint);
}

TEST_CASE("Probabilities as the input of a divergence are told") {
  train_with(
      [](const at::Tensor& y, bool) {
        return F::kl_div(y.softmax(1), torch::full({8, 4}, 0.25));
      },
      always);
  const auto all = findings();
  const Finding* found = find(all, "loss-target-range");
  REQUIRE(found != nullptr);
  CHECK(found->severity == "error");
  CHECK(found->what.ends_with("no logarithms of probabilities"));
}

TEST_CASE("Divergences of probabilities, logarithms and masked targets are silent") {
  train_with(
      [](const at::Tensor& y, bool) {
        const at::Tensor logits = torch::randn({8, 4});
        const auto of_logarithms = F::KLDivFuncOptions().log_target(true);
        const auto none = F::KLDivFuncOptions().reduction(torch::kNone);
        const at::Tensor unknown = logits.softmax(1).index_fill(0, torch::zeros({1}, at::kLong), 0);
        return F::kl_div(y.log_softmax(1), logits.softmax(1)) +
               F::kl_div(y.log_softmax(1), logits.log_softmax(1), of_logarithms) +
               F::kl_div(logits.log_softmax(1), y.softmax(1)) +
               F::kl_div(y.log_softmax(1), unknown, none).slice(0, 1).mean();
      },
      always);
  check_silent();
}

}  // namespace ddpscope::test::handled_values_test
