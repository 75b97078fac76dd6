// NaN and Inf: where they are, how many, and what each way of treating them does.
#include "tests/ops/clip/oracle.h"

namespace ddpscope::test::non_finite_test {
namespace {

struct Planted {
  std::size_t tensor;
  std::int64_t element;
};

Tensors fine_gradients(at::ScalarType type = at::kFloat) {
  torch::manual_seed(11);
  return {torch::randn({70'001}).to(type), torch::randn({5}).to(type), torch::randn({33}).to(type)};
}

Tensors gradients_with(double value, const Planted& at, at::ScalarType type = at::kFloat) {
  const Tensors gradients = fine_gradients(type);
  const auto& gradient = gradients[at.tensor];
  gradient[at.element < 0 ? gradient.numel() - 1 : at.element] = value;
  return gradients;
}

constexpr Planted kPlaces[] = {{0, 0}, {0, -1}, {1, 0}, {1, -1}, {2, 0}, {2, -1}, {0, 40'000}};

}  // namespace

TEST_CASE("Counts and the first bad tensor are exact wherever a NaN or Inf is") {
  for (const auto type : {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
    for (const double p : {0., 1., 2., kInfinity, -kInfinity, 3.}) {
      for (const Planted& place : kPlaces) {
        for (const double value : {kNan, kInfinity, -kInfinity}) {
          const Tensors gradients = gradients_with(value, place, type);
          const auto result =
              clip_grad_norm_(with_gradients(gradients), kInfinity, {.norm_type = p});
          const auto& counts = std::isnan(value) ? result.nan_counts : result.inf_counts;
          const auto& others = std::isnan(value) ? result.inf_counts : result.nan_counts;
          REQUIRE(counts.sum().item<std::int64_t>() == 1);
          REQUIRE(counts[place.tensor].item<std::int64_t>() == 1);
          REQUIRE(others.sum().item<std::int64_t>() == 0);
          REQUIRE(result.first_bad.item<std::int64_t>() == static_cast<std::int64_t>(place.tensor));
          REQUIRE(result.found_inf.item<float>() == 1);
          const double largest = result.max_abs[place.tensor].item<double>();
          REQUIRE((std::isnan(value) ? std::isfinite(largest) : std::isinf(largest)));
        }
      }
    }
  }
}

TEST_CASE("The lowest of several bad tensors is named, and every NaN and Inf counted") {
  const Tensors gradients = fine_gradients();
  gradients[1].fill_(kInfinity);
  gradients[2].narrow(0, 3, 20).fill_(kNan);
  gradients[2][0] = -kInfinity;
  const auto result = clip_grad_norm_(with_gradients(gradients), 1, {});
  CHECK(result.first_bad.item<std::int64_t>() == 1);
  CHECK(same_bits(result.nan_counts, torch::tensor({0, 0, 20}, at::kLong)));
  CHECK(same_bits(result.inf_counts, torch::tensor({0, 5, 1}, at::kLong)));
  const auto text = thrown_by([&] { result.throw_if_non_finite(); });
  CHECK(says(text, "tensors[1], with 0 NaN and 5 Inf"));
}

TEST_CASE("By default a NaN spoils every gradient and an Inf zeroes the finite ones, as in torch") {
  for (const double value : {kNan, kInfinity}) {
    const Tensors ours = gradients_with(value, {1, 2}), torchs = cloned(ours);
    const auto result = clip_grad_norm_(with_gradients(ours), 1);
    torch::nn::utils::clip_grad_norm_(with_gradients(torchs), 1);
    for (std::size_t i = 0; i < ours.size(); ++i) {
      CHECK(torch::allclose(ours[i], torchs[i], 0, 0, /*equal_nan=*/true));
    }
    CHECK(std::isnan(result.coefficient.item<double>()) == std::isnan(value));
  }
}

TEST_CASE("kThrow names the tensor and leaves every gradient as it was") {
  for (const auto type : {at::kHalf, at::kFloat}) {
    for (const double value : {kNan, kInfinity}) {
      for (const Planted& place : kPlaces) {
        const Tensors gradients = gradients_with(value, place, type), before = cloned(gradients);
        const auto text = thrown_by([&] {
          clip_grad_norm_(with_gradients(gradients), 1, {.on_non_finite = NonFinite::kThrow});
        });
        CHECK(says(text, "tensors[" + std::to_string(place.tensor) + "]"));
        CHECK(says(text, std::isnan(value) ? "1 NaN and 0 Inf" : "0 NaN and 1 Inf"));
        CHECK(same_bits(gradients, before));
      }
    }
  }
}

TEST_CASE("A sum that overflows is told apart from elements that are not finite") {
  const auto gradient = torch::full({4}, 1e200, at::kDouble), before = gradient.clone();
  const auto text = thrown_by(
      [&] { clip_grad_norm_(with_gradient(gradient), 1, {.on_non_finite = NonFinite::kThrow}); });
  CHECK(says(text, "the total norm is inf; every element is finite"));
  CHECK(same_bits(gradient, before));
  const auto skipped =
      clip_grad_norm_(with_gradient(gradient), 1, {.on_non_finite = NonFinite::kSkip});
  CHECK(skipped.found_inf.item<float>() == 1);
  CHECK(same_bits(gradient, before));
}

TEST_CASE("kThrowLater goes on and throws once, from the thread's next call or the last look") {
  const auto clip = [](const Tensors& gradients) {
    clip_grad_norm_(with_gradients(gradients), 1, {.on_non_finite = NonFinite::kThrowLater});
  };
  const Tensors bad = gradients_with(kNan, {2, 0});
  clip(bad);
  CHECK(bad[0].isnan().all().item<bool>());
  const Tensors fine = fine_gradients(), before = cloned(fine);
  CHECK(says(thrown_by([&] { clip(fine); }), "earlier call of this thread"));
  CHECK(same_bits(fine, before));
  CHECK(thrown_by([&] { clip(fine); }).empty());
  clip(gradients_with(kInfinity, {0, 0}));
  CHECK(says(thrown_by(throw_if_earlier_non_finite), "tensors[0], with 0 NaN and 1 Inf"));
  CHECK(thrown_by(throw_if_earlier_non_finite).empty());
}

TEST_CASE("kSkip writes nothing where a gradient is not finite and clips where all are") {
  const Tensors bad = gradients_with(kInfinity, {1, 0}), before = cloned(bad);
  const auto result = clip_grad_norm_(with_gradients(bad), 1, {.on_non_finite = NonFinite::kSkip});
  CHECK(same_bits(bad, before));
  CHECK(result.coefficient.item<double>() == 1);
  CHECK(result.found_inf.item<float>() == 1);
  const Tensors fine = fine_gradients();
  clip_grad_norm_(with_gradients(fine), 1, {.on_non_finite = NonFinite::kSkip});
  CHECK(exact_norm(fine, 2) == Approx(1).epsilon(1e-5));
}

TEST_CASE("kZeroTensor zeroes the bad tensors and clips by the norm of the others") {
  const Tensors gradients = gradients_with(kNan, {1, 2}), before = cloned(gradients);
  const double norm = exact_norm({before[0], before[2]}, 2);
  const auto result =
      clip_grad_norm_(with_gradients(gradients), norm / 2,
                      {.on_non_finite = NonFinite::kZeroTensor, .module_of = {0, 0, 1}});
  CHECK(result.total_norm_value() == Approx(norm).epsilon(1e-7));
  CHECK(result.module_norms[0].item<double>() == Approx(exact_norm({before[0]}, 2)).epsilon(1e-7));
  CHECK(same_bits(gradients[1], torch::zeros({5})));
  CHECK(torch::allclose(gradients[0], before[0] * 0.5, 1e-5));
  CHECK(result.nan_counts[1].item<std::int64_t>() == 1);
  const Tensors loose = gradients_with(kInfinity, {0, 5}), kept = cloned(loose);
  clip_grad_norm_(with_gradients(loose), 2 * norm, {.on_non_finite = NonFinite::kZeroTensor});
  CHECK(same_bits(loose[0], torch::zeros({70'001})));
  CHECK(same_bits(loose[2], kept[2]));
}

TEST_CASE("Gradients that are not clipped keep their bits") {
  for (const auto type : {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
    const Tensors gradients = fine_gradients(type), before = cloned(gradients);
    gradients[1][0] = -0.0;
    before[1][0] = -0.0;
    const auto result = clip_grad_norm_(with_gradients(gradients), 1e9);
    CHECK(same_bits(gradients, before));
    CHECK(result.found_inf.item<float>() == 0);
    CHECK(result.first_bad.item<std::int64_t>() == -1);
  }
}

TEST_CASE("A complex number counts where either part is NaN or Inf") {
  const auto gradient = torch::zeros({4}, at::kComplexFloat);
  auto parts = torch::view_as_real(gradient);
  parts[1][0] = kNan;
  parts[2][1] = kInfinity;
  parts[3][0] = kNan;
  parts[3][1] = kNan;
  const auto result = clip_grad_norm_(with_gradient(gradient), kInfinity);
  CHECK(result.nan_counts[0].item<std::int64_t>() == 2);
  CHECK(result.inf_counts[0].item<std::int64_t>() == 1);
  CHECK(std::isnan(result.total_norm_value()));
}

}  // namespace ddpscope::test::non_finite_test
