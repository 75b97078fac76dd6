// Defects of other implementations that must not come back; where they were is beside each.
#include "tests/ops/clip/oracle.h"

namespace ddpscope::test::clipping_test {

// torch PR #194033, fairscale #1092, #263; torchtitan #4135
TEST_CASE("The norm is not rounded to the dtype of the gradients") {
  torch::manual_seed(71);
  for (const auto type : {at::kHalf, at::kBFloat16}) {
    const auto gradient = (torch::randn({1000}) * 0.05).to(type);
    const double norm = clip_grad_norm_(with_gradient(gradient), kInfinity).total_norm_value();
    const double exact = exact_norm({gradient}, 2);
    CHECK(norm == Approx(exact).epsilon(1e-13));
    CHECK(at::full({}, exact, type).item<double>() != norm);
  }
}

// torch #140066, #173203; Megatron-LM #5529, #5530; test_foreach.py, PR #140103
TEST_CASE("An empty tensor first, in the middle or last changes no norm and throws for no order") {
  for (const double p : {0., 1., 2., kInfinity, -kInfinity, -1.}) {
    for (std::size_t place = 0; place < 3; ++place) {
      Tensors gradients = {torch::full({2}, 2.F), torch::full({2}, 3.F)};
      const double expected =
          clip_grad_norm_(with_gradients(gradients), kInfinity, {.norm_type = p})
              .total_norm_value();
      gradients.insert(gradients.begin() + static_cast<std::ptrdiff_t>(place),
                       torch::empty({0, 4}));
      CHECK(clip_grad_norm_(with_gradients(gradients), kInfinity, {.norm_type = p})
                .total_norm_value() == expected);
      CHECK_NOTHROW(compat::clip_grad_norm_(with_gradients(gradients), 1, p));
    }
  }
}

// TransformerEngine, Megatron-LM #7338
TEST_CASE("Each gradient of a mixed list is read in its own dtype") {
  const Tensors gradients = {torch::full({3}, 1.F), torch::full({3}, 2., at::kBFloat16),
                             torch::full({3}, 3., at::kHalf), torch::full({3}, 4., at::kDouble)};
  const auto result = clip_grad_norm_(with_gradients(gradients), kInfinity);
  CHECK(torch::allclose(result.max_abs, torch::tensor({1., 2., 3., 4.}, at::kDouble), 0, 0));
}

// apex norm_out drops a NaN by a plain maximum
TEST_CASE("A NaN is not dropped by a maximum") {
  for (const double p : {kInfinity, -kInfinity}) {
    const auto gradient = torch::tensor({1., kNan, 2.}, at::kFloat);
    const auto result = clip_grad_norm_(with_gradient(gradient), kInfinity, {.norm_type = p});
    CHECK(std::isnan(result.total_norm_value()));
    CHECK(result.max_abs[0].item<double>() == 2);
  }
}

// torch, apex and TransformerEngine always write; a page that may not be written shows it
TEST_CASE("A factor of one writes no gradient") {
  const auto gradient = torch::ones({64}), clone = at::_lazy_clone(gradient);
  clip_grad_norm_(with_gradient(clone), 100);
  clip_grad_value_(with_gradient(clone), 100);
  CHECK(clone.const_data_ptr() == gradient.const_data_ptr());  // still one memory: nobody wrote
  clip_grad_norm_(with_gradient(clone), 1);
  CHECK(clone.const_data_ptr() != gradient.const_data_ptr());
  CHECK(gradient[0].item<float>() == 1);
}

// torch #46849, #123428
TEST_CASE("A norm that is not finite names its tensor") {
  Tensors gradients;
  for (int i = 0; i < 161; ++i) gradients.push_back(torch::ones({i}));
  gradients[97].narrow(0, 0, 12).fill_(kNan);
  const auto result = clip_grad_norm_(with_gradients(gradients), 1);
  CHECK(
      says(thrown_by([&] { result.throw_if_non_finite(); }), "tensors[97], with 12 NaN and 0 Inf"));
}

// torch #31367: compat takes an odd max_norm as torch does
TEST_CASE("In the drop-in form a limit of zero zeroes and a negative one turns signs") {
  for (const double max_norm : {0., -1.}) {
    const auto ours = torch::full({4}, 3.F), torchs = ours.clone();
    compat::clip_grad_norm_(with_gradient(ours), max_norm);
    torch::nn::utils::clip_grad_norm_(with_gradient(torchs), max_norm);
    CHECK(same_bits(ours, torchs));
  }
}

}  // namespace ddpscope::test::clipping_test
