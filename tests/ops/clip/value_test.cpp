#include "tests/ops/clip/oracle.h"

namespace ddpscope::test::value_test {

TEST_CASE("Values are clamped as torch does, in every dtype") {
  torch::manual_seed(21);
  for (const auto type : {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
    for (const double limit : {0., 0.3, 1., 6e4, kInfinity}) {
      const auto ours = torch::randn({20'003}).to(type);
      ours[5] = kInfinity;
      ours[6] = -kInfinity;
      const auto expected = ours.clamp(-limit, limit);
      const auto result = clip_grad_value_(with_gradient(ours), limit);
      CAPTURE(toString(type), limit);
      CHECK((ours == expected).all().item<bool>());
      CHECK(result.inf_counts[0].item<std::int64_t>() == 2);
    }
  }
}

TEST_CASE("A NaN stays NaN, an Inf becomes the limit, and both are counted") {
  const auto gradient = torch::tensor({kNan, kInfinity, -kInfinity, 0.5, -7.}, at::kFloat);
  const auto result =
      clip_grad_value_({with_gradient(torch::ones({2})), with_gradient(gradient)}, 2);
  CHECK(
      torch::allclose(gradient, torch::tensor({kNan, 2., -2., 0.5, -2.}, at::kFloat), 0, 0, true));
  CHECK(same_bits(result.nan_counts, torch::tensor({0, 1}, at::kLong)));
  CHECK(same_bits(result.inf_counts, torch::tensor({0, 2}, at::kLong)));
}

TEST_CASE("Values within the limit keep their bits") {
  const auto gradient = torch::tensor({-0.0F, 1.F, -1.F, 1e-40F}), before = gradient.clone();
  clip_grad_value_(with_gradient(gradient), 1);
  CHECK(same_bits(gradient, before));
}

TEST_CASE("Strided and sparse gradients are clamped where they lie") {
  const auto matrix = torch::full({3, 4}, 5.F);
  const auto sparse =
      torch::sparse_coo_tensor(torch::tensor({{0, 0, 2}}), torch::tensor({2.F, 2.F, -9.F}), {4});
  clip_grad_value_({with_gradient(matrix.slice(1, 0, 2)), with_gradient(sparse)}, 3);
  CHECK((matrix.slice(1, 0, 2) == 3).all().item<bool>());
  CHECK((matrix.slice(1, 2, 4) == 5).all().item<bool>());
  // 2 + 2 is above the limit though neither value is.
  CHECK(same_bits(sparse.to_dense(), torch::tensor({3.F, 0.F, -3.F, 0.F})));
}

TEST_CASE("Wrong limits and complex gradients are refused with nothing changed") {
  const auto gradient = torch::full({3}, 5.F), before = gradient.clone();
  const auto complex = torch::ones({2}, at::kComplexFloat);
  const auto refused = [&](double limit) {
    return thrown_by([&] {
      clip_grad_value_({with_gradient(gradient), with_gradient(complex)}, limit);
    });
  };
  CHECK(says(refused(-1), "limit must not be negative or NaN, but is -1"));
  CHECK(says(refused(kNan), "limit must not be negative or NaN"));
  CHECK(says(refused(1), "tensors[1] is complex"));
  CHECK(same_bits(gradient, before));
}

}  // namespace ddpscope::test::value_test
