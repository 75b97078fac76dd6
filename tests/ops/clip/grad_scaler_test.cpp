#include "tests/ops/clip/oracle.h"

namespace ddpscope::test::grad_scaler_test {
namespace {

at::Tensor scalar(float value) { return torch::full({}, value); }

}  // namespace

// pytorch test/test_cuda.py: unscale, then clip
TEST_CASE("Unscale, check, norm and clip in one call equal torch's steps") {
  for (const float scale : {65536.F, 3.F, 0.25F}) {
    torch::manual_seed(51);
    const Tensors ours = {torch::randn({40'000}) * 100, torch::randn({17}) * 100};
    Tensors torchs = cloned(ours);
    const auto inverse = scalar(1 / scale);
    auto found = scalar(0);
    at::_amp_foreach_non_finite_check_and_unscale_(torchs, found, inverse);
    const double norm = torch::nn::utils::clip_grad_norm_(with_gradients(torchs), 1e-3);
    const auto result = clip_grad_norm_(with_gradients(ours), 1e-3, {.inverse_scale = inverse});
    CHECK(result.total_norm_value() == Approx(norm).epsilon(1e-6));
    CHECK(result.found_inf.item<float>() == 0);
    CHECK(result.max_abs[1].item<double>() ==
          Approx(torchs[1].abs().max().item<double>() / result.coefficient.item<double>())
              .epsilon(1e-5));
    const double factor = result.coefficient.item<double>() * inverse.item<float>();
    CHECK(result.grad_scale.item<float>() == Approx(1 / factor).epsilon(1e-6));
    for (std::size_t i = 0; i < ours.size(); ++i)
      CHECK(torch::allclose(ours[i], torchs[i], 1e-6, 0));
  }
}

TEST_CASE("A scale that is a power of two leaves the very bits of torch where nothing is clipped") {
  torch::manual_seed(52);
  const Tensors ours = {torch::randn({1000}), torch::randn({33}).to(at::kHalf)};
  Tensors torchs = cloned(ours);
  auto found = scalar(0);
  at::_amp_foreach_non_finite_check_and_unscale_(torchs, found, scalar(0x1p-6));
  clip_grad_norm_(with_gradients(ours), kInfinity, {.inverse_scale = scalar(0x1p-6)});
  CHECK(same_bits(ours, torchs));
}

TEST_CASE("With an Inf as given, gradients are unscaled and not clipped") {
  for (const auto mode : {NonFinite::kPropagate, NonFinite::kSkip}) {
    const auto bad = torch::tensor({kInfinity, 8.}, at::kFloat), fine = torch::full({3}, 80.F);
    const auto result = clip_grad_norm_({with_gradient(bad), with_gradient(fine)}, 0.1,
                                        {.on_non_finite = mode, .inverse_scale = scalar(0.125)});
    CHECK(result.found_inf.item<float>() == 1);
    CHECK(result.coefficient.item<double>() == 1);
    CHECK(same_bits(fine, torch::full({3}, 10.F)));
    CHECK(bad[1].item<float>() == 1);
  }
}

TEST_CASE("The scale grows and backs off as torch's over 100 steps") {
  const GradScalerOptions options = {.init_scale = 1024, .growth_interval = 7};
  GradScaler scaler(options);
  auto scale = scalar(1024);
  auto tracker = torch::zeros({}, at::kInt);
  const auto parameter = torch::zeros({4}, torch::requires_grad());
  torch::optim::SGD optimizer({parameter}, 0.1);
  torch::manual_seed(53);
  int taken = 0;
  for (int step = 0; step < 100; ++step) {
    const bool is_bad = torch::rand({}).item<float>() < 0.1;
    optimizer.zero_grad();
    scaler.scale((parameter * (is_bad ? kInfinity : 1)).sum()).backward();
    Tensors gradients = {parameter.grad().clone()};
    auto found = scalar(0);
    at::_amp_foreach_non_finite_check_and_unscale_(gradients, found, scale.reciprocal());
    const auto result = scaler.unscale_and_clip_({parameter}, 1);
    CHECK(same_bits(result.found_inf, found));
    const bool is_taken = scaler.step(optimizer);
    CHECK(is_taken != is_bad);
    taken += is_taken;
    scaler.update();
    at::_amp_update_scale_(scale, tracker, found, 2, 0.5, 7);
    CHECK(scaler.state().scale == scale.item<float>());
    CHECK(scaler.state().growth_tracker == tracker.item<int>());
  }
  CHECK(taken > 70);
  CHECK(taken < 100);
  CHECK(parameter.isfinite().all().item<bool>());
}

TEST_CASE("A wrong order throws and says the right one") {
  GradScaler scaler;
  const auto parameter = with_gradient(torch::ones({2}));
  torch::optim::SGD optimizer({parameter}, 0.1);
  CHECK(says(thrown_by([&] { scaler.step(optimizer); }), "before unscale_and_clip_"));
  CHECK(says(thrown_by([&] { scaler.update(); }), "without unscale_and_clip_"));
  scaler.unscale_and_clip_({parameter}, 1);
  const auto before = parameter.grad().clone();
  CHECK(says(thrown_by([&] { scaler.unscale_and_clip_({parameter}, 1); }), "called already"));
  CHECK(same_bits(parameter.grad(), before));
  CHECK(scaler.step(optimizer));
  const auto stepped = parameter.detach().clone();
  CHECK(says(thrown_by([&] { scaler.step(optimizer); }), "already with this optimizer"));
  CHECK(same_bits(parameter, stepped));
  scaler.update();
  CHECK(says(thrown_by([&] { scaler.step(optimizer); }), "before unscale_and_clip_"));
  const auto with_scale = [&] {
    scaler.unscale_and_clip_({parameter}, 1, {.inverse_scale = scalar(1)});
  };
  CHECK(says(thrown_by(with_scale), "leave inverse_scale undefined"));
}

TEST_CASE("A clip that throws leaves the scaler where it was") {
  GradScaler scaler;
  const auto parameter = with_gradient(torch::full({2}, kNan));
  for (const auto mode : {NonFinite::kThrow, NonFinite::kThrowLater}) {
    CHECK(
        says(thrown_by([&] { scaler.unscale_and_clip_({parameter}, 1, {.on_non_finite = mode}); }),
             "leave a scale that is too large"));
  }
  CHECK_FALSE(thrown_by([&] { scaler.unscale_and_clip_({parameter}, -1); }).empty());
  parameter.mutable_grad() = torch::ones({2});
  CHECK(scaler.unscale_and_clip_({parameter}, 1).found_inf.item<float>() == 0);
}

TEST_CASE("A parameter of a shared layer, which is listed twice, is unscaled and counted once") {
  GradScaler scaler({.init_scale = 4});
  const auto shared = with_gradient(torch::full({2}, 8.)), other = with_gradient(torch::ones({1}));
  const auto result = scaler.unscale_and_clip_({shared, other, shared}, kInfinity);
  CHECK(torch::equal(shared.grad(), torch::full({2}, 2.)));
  CHECK(result.total_norm_value() == Approx(std::sqrt(2 * 4 + 0.0625)));
  CHECK(result.tensor_norms.numel() == 3);
  CHECK(result.tensor_norms[2].item<double>() == 0);
}

TEST_CASE("Each of two optimizers is left out by its own gradients") {
  GradScaler scaler({.init_scale = 4});
  const auto bad = with_gradient(torch::full({2}, kNan)), good = with_gradient(torch::ones({2}));
  torch::optim::SGD first({bad}, 0.1), second({good}, 0.1);
  scaler.unscale_and_clip_({bad}, kInfinity);
  CHECK(says(thrown_by([&] { scaler.step(second); }),
             "parameter 0 of group 0 of this optimizer was in no list"));
  CHECK(good.grad()[0].item<float>() == 1);
  scaler.unscale_and_clip_({good}, kInfinity);
  CHECK(good.grad()[0].item<float>() == 0.25);
  CHECK(says(thrown_by([&] {
               scaler.unscale_and_clip_({torch::ones({1}), good}, 1);
             }),
             "already in this step for parameters[1]"));
  CHECK_FALSE(scaler.step(first));
  CHECK(scaler.step(second));
  scaler.update();
  CHECK(scaler.state().scale == 2);
}

TEST_CASE("Several optimizers may share one list") {
  GradScaler scaler({.init_scale = 4});
  const auto one = with_gradient(torch::ones({2})), other = with_gradient(torch::ones({2}));
  torch::optim::SGD first({one}, 0.1), second({other}, 0.1), idle({torch::ones({2})}, 0.1);
  scaler.unscale_and_clip_({one, other}, kInfinity);
  CHECK(scaler.step(first));
  CHECK(scaler.step(second));
  CHECK(scaler.step(idle));
  scaler.update();
}

TEST_CASE("However often a scale backs off, it stays one") {
  GradScaler scaler({.init_scale = 0x1p-124});
  const auto parameter = with_gradient(torch::full({2}, kNan));
  for (int step = 0; step < 5; ++step) {
    scaler.unscale_and_clip_({parameter}, 1);
    scaler.update();
  }
  CHECK(scaler.state().scale == 0x1p-126);
}

TEST_CASE("However often a scale grows, it can be loaded") {
  GradScaler scaler({.init_scale = 0x1p125, .growth_interval = 1});
  const auto parameter = with_gradient(torch::zeros({2}));
  for (int step = 0; step < 4; ++step) {
    scaler.unscale_and_clip_({parameter}, 1);
    scaler.update();
  }
  CHECK(scaler.state().scale == 0x1p126);
  scaler.load(scaler.state());
}

TEST_CASE("A state goes on where it was saved") {
  GradScaler first({.init_scale = 64, .growth_interval = 2});
  const auto parameter = with_gradient(torch::ones({2}));
  const auto good_step = [&](GradScaler& scaler) {
    scaler.unscale_and_clip_({parameter}, 1);
    scaler.update();
  };
  good_step(first);
  GradScaler second({.growth_interval = 2});
  second.load(first.state());
  CHECK(second.state().scale == 64);
  good_step(second);
  CHECK(second.state().scale == 128);
  CHECK(second.state().growth_tracker == 0);
  CHECK(says(thrown_by([&] { second.load({.scale = 0}); }), "from 2^-126 to 2^126, but is 0"));
  for (const std::int64_t tracker : {std::int64_t{-1}, std::int64_t{1} << 40}) {
    CHECK(says(thrown_by([&] { second.load({.growth_tracker = tracker}); }), "growth_tracker"));
  }
}

TEST_CASE("Options out of their range are refused") {
  const auto refused = [](const GradScalerOptions& options) {
    return thrown_by([&] { GradScaler scaler(options); });
  };
  CHECK(says(refused({.init_scale = kInfinity}), "scale must be finite"));
  for (const double scale : {-1., 0., 1e-300, 1e-39, 1e38, 1e300}) {
    CHECK(says(refused({.init_scale = scale}), "from 2^-126 to 2^126"));
  }
  CHECK(says(refused({.growth_factor = 1}), "growth_factor must be above 1"));
  CHECK(says(refused({.growth_factor = kInfinity}), "and finite, but is inf"));
  CHECK(says(refused({.backoff_factor = 1}), "backoff_factor must be between"));
  CHECK(says(refused({.growth_interval = 0}), "growth_interval must be at least 1"));
}

}  // namespace ddpscope::test::grad_scaler_test
