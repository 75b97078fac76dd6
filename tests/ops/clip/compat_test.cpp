// The drop-in forms beside torch::nn::utils itself.
#include "tests/ops/clip/oracle.h"

namespace ddpscope::test::compat_test {
namespace {
namespace utils = torch::nn::utils;

/// Parameters of the same gradients, for one implementation each.
struct Pair {
  Tensors ours, torchs;

  explicit Pair(const Tensors& gradients)
      : ours(with_gradients(cloned(gradients))), torchs(with_gradients(cloned(gradients))) {}

  void check_equal(double limit) const {
    for (std::size_t i = 0; i < ours.size(); ++i) {
      CHECK(torch::allclose(ours[i].grad(), torchs[i].grad(), limit, 1e-12, /*equal_nan=*/true));
    }
  }
};

double epsilon_of(at::ScalarType type) {
  return type == at::kHalf       ? 2e-3
         : type == at::kBFloat16 ? 1.6e-2
         : type == at::kFloat    ? 1e-6
                                 : 1e-14;
}

}  // namespace

// pytorch test/cpp/api/nn_utils.cpp: ClipGradNorm
TEST_CASE("The ratio of gradients before and after is constant") {
  const auto layer = torch::nn::Linear(10, 10);
  const double max_norm = 2;
  for (const double p : {0.5, 1.5, 2., 4., kInfinity}) {
    const Tensors gradients = {torch::arange(1.0, 101).view({10, 10}), torch::ones({10}) / 1000};
    const auto parameters = layer->parameters();
    for (std::size_t i = 0; i < 2; ++i) {
      parameters[i].mutable_grad() = gradients[i].clone().view_as(parameters[i]);
    }
    const double before = exact_norm(gradients, p);
    CHECK(compat::clip_grad_norm_(parameters, max_norm, p) == Approx(before).epsilon(1e-6));
    Tensors ratios;
    for (std::size_t i = 0; i < 2; ++i) {
      ratios.push_back((parameters[i].grad() / gradients[i]).flatten());
    }
    const auto ratio = torch::cat(ratios);
    CHECK(ratio.std().item<double>() < 1e-7);
    CHECK(ratio[0].item<double>() == Approx(max_norm / before).epsilon(1e-5));
  }
}

TEST_CASE("Totals and gradients are torch's for every order, dtype and limit") {
  for (const auto type : {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
    torch::manual_seed(31);
    const Tensors gradients = {torch::randn({31}).to(type), torch::randn({4, 5}).to(type)};
    for (const double p : {0., 0.5, 1., 1.5, 2., 4., kInfinity, -1., -kInfinity}) {
      for (const double max_norm : {-1., 0., 0.7, 1e4, kInfinity, kNan}) {
        CAPTURE(toString(type), p, max_norm);
        const Pair pair(gradients);
        const double norm = compat::clip_grad_norm_(pair.ours, max_norm, p);
        // An order of 0.5 squares the sum, and with it torch's rounding of each norm.
        const double limit = epsilon_of(type) * (p == 0.5 ? 4 : 1);
        CHECK(norm == Approx(utils::clip_grad_norm_(pair.torchs, max_norm, p)).epsilon(limit));
        pair.check_equal(2 * limit);
      }
    }
  }
}

TEST_CASE("The total is rounded once to the dtype of torch's own") {
  const auto bfloat = torch::randn({99}).to(at::kBFloat16);
  const double half_norm = compat::clip_grad_norm_(with_gradient(bfloat.clone()), 1);
  CHECK(half_norm == at::full({}, exact_norm({bfloat}, 2), at::kBFloat16).item<double>());
  const auto wide = torch::randn({9}, at::kDouble);
  const Tensors mixed = {wide, torch::randn({9})};
  CHECK(compat::clip_grad_norm_(with_gradients(cloned(mixed)), 1) ==
        Approx(exact_norm(mixed, 2)).epsilon(1e-14));
  // In float16 the norm is beyond 65,504, in torch as here.
  const auto large = torch::full({10'000}, 6e4, at::kHalf);
  CHECK(std::isinf(compat::clip_grad_norm_(with_gradient(large), 1)));
}

// pytorch test/cpp/api/nn_utils.cpp: ClipGradNormErrorIfNonfinite
TEST_CASE("error_if_nonfinite throws torch's text with gradients unchanged, and only when asked") {
  const double values[] = {kNan, kInfinity, -kInfinity};
  for (const double p : {0.1, 1., 2., 3.5, kInfinity}) {
    for (const double value : values) {
      for (const std::int64_t place : {0, 5, 9}) {
        const auto gradient = torch::ones({10}, at::kDouble);
        gradient[place] = value;
        const Pair pair({torch::ones({3}, at::kDouble), gradient});
        const auto ours = thrown_by([&] { compat::clip_grad_norm_(pair.ours, 1, p, true); });
        const auto torchs = thrown_by([&] { utils::clip_grad_norm_(pair.torchs, 1, p, true); });
        CHECK(says(ours, "The total norm of order"));
        CHECK(ours.substr(0, ours.find('\n')) == torchs.substr(0, torchs.find('\n')));
        CHECK(same_bits(pair.ours[1].grad(), gradient));
        const double norm = compat::clip_grad_norm_(pair.ours, 1, p, false);
        const double expected = utils::clip_grad_norm_(pair.torchs, 1, p, false);
        CHECK(std::isnan(norm) == std::isnan(expected));
        CHECK(std::isinf(norm) == std::isinf(expected));
        pair.check_equal(1e-12);
      }
    }
  }
}

// pytorch test/test_nn.py: test_clip_grad_norm_error_if_nonfinite, the norms that overflow
TEST_CASE("Doubles whose powers overflow are not finite where torch's are not") {
  const auto fails = [](double value, double p) {
    const auto parameter = with_gradient(torch::full({10}, value, at::kDouble));
    return !thrown_by([&] { compat::clip_grad_norm_(parameter, 1, p, true); }).empty();
  };
  for (const double p : {2., 3.5}) CHECK((fails(2e200, p) && fails(-2e200, p)));
  for (const double p : {0.1, 1., kInfinity}) CHECK_FALSE((fails(2e200, p) || fails(-2e200, p)));
  for (const double p : {0.1, 1., 2., 3.5, kInfinity}) CHECK_FALSE(fails(2e22, p));
}

// pytorch test/cpp/api/nn_utils.cpp: ClipGradValue
TEST_CASE("clip_grad_value_ takes one tensor, a list and odd limits as torch does") {
  for (const double limit : {2.5, 0., -2.5, kInfinity}) {
    const Pair pair({torch::arange(-50., 50).view({10, 10}), torch::ones({10})});
    compat::clip_grad_value_(pair.ours, limit);
    utils::clip_grad_value_(pair.torchs, limit);
    pair.check_equal(0);
  }
  const Pair one({torch::arange(-50., 50)});
  compat::clip_grad_value_(one.ours[0], 2.5);
  compat::clip_grad_value_({one.torchs[0]}, 2.5);
  one.check_equal(0);
  CHECK(one.ours[0].grad().max().item<double>() == 2.5);
}

TEST_CASE("One tensor, an initializer list and no gradient are taken as torch does") {
  const auto gradient = torch::full({4}, 3.F);
  CHECK(compat::clip_grad_norm_(with_gradient(gradient.clone()), 1) == 6);
  CHECK(compat::clip_grad_norm_({with_gradient(gradient.clone()), torch::ones({2})}, 1) == 6);
  CHECK(compat::clip_grad_norm_(torch::ones({2}), 1) == 0);
  CHECK(compat::clip_grad_norm_(Tensors(), 1, 2, true) == 0);
}

// apex contrib/test/clip_grad: 41 tensors of sizes 1-5, mixed dtypes, max_norm 0.54321
TEST_CASE("41 small tensors of mixed dtypes are clipped as torch clips them") {
  for (const double p : {0.5, 1.5, 2., kInfinity}) {
    torch::manual_seed(41);
    Tensors gradients;
    for (int i = 0; i < 41; ++i) {
      gradients.push_back(torch::randn({1 + i % 5}, i % 3 == 0 ? at::kDouble : at::kFloat));
    }
    const Pair pair(gradients);
    const double norm = compat::clip_grad_norm_(pair.ours, 0.54321, p);
    CHECK(norm == Approx(utils::clip_grad_norm_(pair.torchs, 0.54321, p)).epsilon(1e-6));
    CHECK(norm == Approx(exact_norm(gradients, p)).epsilon(1e-13));
    pair.check_equal(1e-6);
  }
}

}  // namespace ddpscope::test::compat_test
