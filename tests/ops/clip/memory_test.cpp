// Gradients whose memory does not hold their values: zeros that nothing holds, signs still to
// change.
#include <ATen/ops/_efficientzerotensor.h>
#include <ATen/ops/_neg_view.h>

#include "tests/ops/clip/oracle.h"

namespace ddpscope::test::memory_test {
namespace {

at::Tensor after_sgn() {
  const at::Tensor parameter = torch::ones({4}).requires_grad_();
  torch::sgn(parameter).sum().backward();
  REQUIRE(parameter.grad()._is_zerotensor());
  return parameter;
}

}  // namespace

TEST_CASE("Zeros without memory count as zeros and stay as they are") {
  const auto p = GENERATE(0., 1., 2., kInfinity, -kInfinity);
  const auto zeros = after_sgn(), same = with_gradient(torch::zeros({4}));
  const auto gradient = torch::full({2}, 3.F), again = gradient.clone();
  const auto found = clip_grad_norm_({zeros, with_gradient(gradient)}, 0.5, {.norm_type = p});
  const auto expected = clip_grad_norm_({same, with_gradient(again)}, 0.5, {.norm_type = p});
  CHECK(same_bits(found.total_norm, expected.total_norm));
  CHECK(same_bits(found.tensor_norms, expected.tensor_norms));
  CHECK(same_bits(gradient, again));
  CHECK(zeros.grad()._is_zerotensor());
}

TEST_CASE("Zeros without memory pass every way to clip and to unscale") {
  const auto zeros = after_sgn();
  CHECK(clip_grad_value_(zeros, 1).nan_counts[0].item<std::int64_t>() == 0);
  CHECK(compat::clip_grad_norm_(zeros, 1.0) == 0);
  compat::clip_grad_value_(zeros, 1.0);
  GradScaler scaler;
  torch::optim::SGD optimizer({zeros}, 0.1);
  scaler.unscale_and_clip_(zeros, 1);
  CHECK(scaler.step(optimizer));
  CHECK(torch::equal(zeros.detach(), torch::ones({4})));
}

TEST_CASE("Zeros without memory that would become NaN are refused, and nothing is changed") {
  const auto bad = torch::tensor({kNan, 2.}, at::kFloat), before = bad.clone();
  const auto message = thrown_by([&] { clip_grad_norm_({with_gradient(bad), after_sgn()}, 1); });
  CHECK(says(message, "the gradient of tensors[1] is of zeros without memory"));
  CHECK(says(message, "call clone() on it first"));
  CHECK(same_bits(bad, before));
}

TEST_CASE("Gradients whose sign is still to be changed are clipped with it") {
  const auto values = torch::tensor({3.F, -4.F}), stored = values.neg();
  const auto gradient = at::_neg_view(stored);
  const auto clip = [&](double limit) {
    return clip_grad_norm_(gradient, limit, {.input = ClipInput::kGradients, .eps = 0});
  };
  CHECK(clip(2.5).total_norm_value() == 5);
  CHECK(torch::equal(gradient, torch::tensor({1.5F, -2.F})));
  clip_grad_value_(gradient, 1.75, ClipInput::kGradients);
  CHECK(torch::equal(gradient, torch::tensor({1.5F, -1.75F})));
  CHECK(torch::equal(stored, torch::tensor({-1.5F, 1.75F})));
}

}  // namespace ddpscope::test::memory_test
