// What is computed: norms of every order and dtype beside the oracle.
#include "tests/ops/clip/oracle.h"

namespace ddpscope::test::norm_test {
namespace {

constexpr double kOrders[] = {0.1, -0.1, 0.5,  1, -1,        1.5,       2,
                              -2,  3.5,  -3.5, 4, kInfinity, -kInfinity};
constexpr at::ScalarType kTypes[] = {at::kHalf,   at::kBFloat16,     at::kFloat,
                                     at::kDouble, at::kComplexFloat, at::kComplexDouble};

Tensors gradients_of(at::ScalarType type) {
  torch::manual_seed(7);
  Tensors gradients;
  for (const std::int64_t size : {37, 1, 300, 16}) {
    const auto wide =
        type == at::kComplexFloat || type == at::kComplexDouble ? at::kComplexDouble : at::kDouble;
    // Away from zero, where the powers of negative orders leave what a double holds.
    auto values = torch::randn({size}, wide);
    values = values + values.sgn() * 0.25;
    gradients.push_back(values.to(type));
  }
  return gradients;
}

/// How far a product that is rounded once may be from the exact one.
double tolerance(at::ScalarType type) {
  switch (c10::toRealValueType(type)) {
    case at::kHalf:
      return 5e-4;
    case at::kBFloat16:
      return 4e-3;
    case at::kFloat:
      return 1.2e-7;
    default:
      return 4e-16;
  }
}

void check_scaled(const Tensors& before, const Tensors& after, double factor) {
  for (std::size_t i = 0; i < before.size(); ++i) {
    const auto wide = before[i].is_complex() ? at::kComplexDouble : at::kDouble;
    const auto expected = before[i].to(wide) * factor;
    const double limit = tolerance(before[i].scalar_type()) * expected.abs().max().item<double>();
    CHECK((after[i].to(wide) - expected).abs().max().item<double>() <= limit);
  }
}

}  // namespace

TEST_CASE("Norms of every order and dtype are those of the oracle") {
  for (const auto type : kTypes) {
    const Tensors gradients = gradients_of(type);
    for (const double p : kOrders) {
      const double exact = exact_norm(gradients, p);
      CAPTURE(toString(type), p, exact);
      const double limit = type == at::kDouble || type == at::kComplexDouble ? 1e-13 : 1e-7;
      const auto result =
          clip_grad_norm_(gradients, kInfinity, {.input = ClipInput::kGradients, .norm_type = p});
      CHECK(result.total_norm_value() == Approx(exact).epsilon(limit));
      CHECK(result.coefficient.item<double>() == 1);
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        CHECK(result.tensor_norms[i].item<double>() ==
              Approx(exact_norm({gradients[i]}, p)).epsilon(limit));
        CHECK(result.max_abs[i].item<double>() ==
              Approx(exact_norm({gradients[i]}, kInfinity)).epsilon(limit));
      }
    }
  }
}

TEST_CASE("Norms of order 1 and 2 of doubles are exact to 1e-14") {
  torch::manual_seed(3);
  const Tensors gradients = {torch::randn({100'000}, at::kDouble), torch::randn({7}, at::kDouble)};
  for (const double p : {1., 2.}) {
    const auto result =
        clip_grad_norm_(gradients, kInfinity, {.input = ClipInput::kGradients, .norm_type = p});
    CHECK(result.total_norm_value() == Approx(exact_norm(gradients, p)).epsilon(1e-14));
  }
}

TEST_CASE("A limit below, at and above the norm scales as far as it must") {
  for (const auto type : kTypes) {
    const Tensors gradients = gradients_of(type);
    const double norm = exact_norm(gradients, 2);
    CAPTURE(toString(type));
    for (const double max_norm : {0., norm / 3, norm, 2 * norm}) {
      const Tensors clipped = cloned(gradients);
      const auto result = clip_grad_norm_(with_gradients(clipped), max_norm);
      const double factor = std::min(1., max_norm / (norm + 1e-6));
      CHECK(result.coefficient.item<double>() == Approx(factor).epsilon(1e-7));
      check_scaled(gradients, clipped, factor);
      if (factor == 1) CHECK(same_bits(clipped, gradients));
      CHECK(result.grad_scale.item<float>() == Approx(1 / factor).epsilon(1e-6));
    }
  }
}

TEST_CASE("Order 0 counts gradients with elements") {
  const Tensors gradients = {torch::full({3}, 5.), torch::zeros({2}), torch::empty({0})};
  const auto result = clip_grad_norm_(with_gradients(gradients), 1, {.norm_type = 0});
  CHECK(result.total_norm_value() == 2);
  CHECK(gradients[0][0].item<float>() == Approx(2.5).epsilon(1e-5));
  gradients[1][0] = kNan;
  CHECK(clip_grad_norm_(with_gradients(gradients), kInfinity,
                        {.norm_type = 0, .on_non_finite = NonFinite::kThrow})
            .total_norm_value() == 2);
}

TEST_CASE("A zero makes norms of negative order zero, and nothing is clipped") {
  for (const double p : {-1., -2., -0.5, -kInfinity}) {
    const Tensors gradients = {torch::tensor({3.F, 0.F}), torch::tensor({4.F})};
    const Tensors before = cloned(gradients);
    const auto result = clip_grad_norm_(with_gradients(gradients), 1, {.norm_type = p});
    CHECK(result.total_norm_value() == 0);
    CHECK(same_bits(gradients, before));
  }
}

TEST_CASE("Large and small numbers keep finite norms") {
  const auto norm = [](const at::Tensor& gradient, double p = 2) {
    return clip_grad_norm_(gradient, kInfinity, {.input = ClipInput::kGradients, .norm_type = p})
        .total_norm_value();
  };
  CHECK(norm(torch::full({4}, 1e25F)) == Approx(2e25).epsilon(1e-6));
  CHECK(norm(torch::full({4}, 1e-25F)) == Approx(2e-25).epsilon(1e-6));
  CHECK(norm(torch::full({10'000}, 60000., at::kHalf)) == Approx(6e6).epsilon(1e-3));
  CHECK(norm(torch::full({4}, -2e22, at::kDouble)) == Approx(4e22).epsilon(1e-14));
  const auto huge = torch::full({4}, -2e200, at::kDouble);
  for (const double p : {2., 3.5}) CHECK(std::isinf(norm(huge, p)));
  for (const double p : {1., 0.1, kInfinity}) CHECK(std::isfinite(norm(huge, p)));
}

TEST_CASE("Gradients of half are multiplied in float and rounded once") {
  const auto gradient = torch::full({40}, 0.1, at::kHalf);
  const double norm = exact_norm({gradient}, 2);
  const auto factor = static_cast<float>(0.3 / (norm + 1e-6));
  const auto rounded = (gradient.to(at::kFloat) * factor).to(at::kHalf);
  clip_grad_norm_(with_gradient(gradient), 0.3);
  CHECK(same_bits(gradient, rounded));
}

TEST_CASE("Module norms are those of the gradients of each module") {
  const Tensors gradients = {torch::full({4}, 1.), torch::full({9}, 1.), torch::full({4}, 2.)};
  const auto result =
      clip_grad_norm_(with_gradients(gradients), kInfinity, {.module_of = {2, 0, 2}});
  REQUIRE(result.module_norms.sizes() == at::IntArrayRef{3});
  CHECK(result.module_norms[0].item<double>() == 3);
  CHECK(result.module_norms[1].item<double>() == 0);
  CHECK(result.module_norms[2].item<double>() == Approx(std::sqrt(20)).epsilon(1e-14));
}

TEST_CASE("Wrong arguments are told before anything is written") {
  const auto gradient = torch::full({4}, 3.);
  const auto before = gradient.clone();
  const auto call = [&](double max_norm, const ClipOptions& options) {
    return thrown_by([&] { clip_grad_norm_(with_gradient(gradient), max_norm, options); });
  };
  CHECK(says(call(-1, {}), "max_norm must not be negative or NaN, but is -1"));
  CHECK(says(call(kNan, {}), "max_norm"));
  CHECK(says(call(1, {.norm_type = kNan}), "norm_type"));
  CHECK(says(call(1, {.eps = -1}), "eps"));
  CHECK(says(call(1, {.on_non_finite = NonFinite::kZeroTensor, .defer = true}),
             "kZeroTensor writes gradients, which `defer` leaves as they are"));
  CHECK(says(call(1, {.module_of = {0, 1}}), "module_of has 2 entries for 1 tensors"));
  CHECK(says(call(1, {.module_of = {-1}}), "module_of[0] is -1"));
  CHECK(says(call(1, {.module_of = {2'000'000'000}}), "module_of[0] is 2000000000"));
  CHECK(says(call(1, {.inverse_scale = torch::ones({2})}), "inverse_scale must be one Float"));
  for (const double scale : {kNan, kInfinity, -1., 0.}) {
    CHECK(says(call(1, {.inverse_scale = torch::full({}, scale, at::kFloat)}),
               "inverse_scale must be finite and above 0"));
  }
  CHECK(same_bits(gradient, before));
}

}  // namespace ddpscope::test::norm_test
