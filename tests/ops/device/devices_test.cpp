#include "tests/ops/device/clip_case.h"

namespace ddpscope::test::clip_test {

TEST_CASE("A list on several devices is clipped as one") {
  torch::manual_seed(10);
  const int devices = GENERATE(2, 8);
  const double p = GENERATE(0., 2., -1., HUGE_VAL, -HUGE_VAL);
  CAPTURE(devices, p);
  const std::vector<std::int32_t> modules = {0, 1, 1, 3, 0, 3, 1, 1};
  for (const double max_norm : {0., 1e-2, HUGE_VAL}) {
    check_same(mixed_list(), max_norm, {.norm_type = p, .module_of = modules}, devices);
  }
  Tensors gradients = mixed_list();
  const auto scale = torch::full({}, 0.25, at::kFloat);
  check_same(gradients, 1, {.norm_type = p, .inverse_scale = scale}, devices);
  gradients[4][9] = kInfinity;
  gradients[5][3] = kNan;
  using enum NonFinite;
  for (const NonFinite mode : {kPropagate, kSkip, kZeroTensor}) {
    CAPTURE(static_cast<int>(mode));
    check_same(gradients, 1, {.norm_type = p, .on_non_finite = mode}, devices);
    check_same(gradients, 1, {.norm_type = p, .on_non_finite = mode, .inverse_scale = scale},
               devices);
  }
}

TEST_CASE("What a list on several devices refuses leaves every gradient as it was") {
  Tensors gradients = {torch::ones({4}), torch::ones({5000}), torch::ones({3})};
  gradients[1][4999] = kInfinity;  // on the CPU
  const Tensors before = cloned(gradients);
  const auto clip_on_two = [&](NonFinite mode) {
    return thrown_by([&] { clip(gradients, 1, {.on_non_finite = mode}, /*devices=*/2); });
  };
  CHECK(says(clip_on_two(NonFinite::kThrow), "that of tensors[1], with 0 NaN and 1 Inf. No grad"));
  CHECK(same_bits(gradients, before));
  CHECK(clip_on_two(NonFinite::kThrowLater).empty());
  CHECK(says(thrown_by(throw_if_earlier_non_finite), "that of tensors[1], with 0 NaN and 1 Inf"));
}

TEST_CASE("Shards may lie on several devices, and the factor may be deferred") {
  torch::manual_seed(11);
  const auto shards = std::make_shared<BesideAnother>(std::vector<double>{3, 1, 0});
  check_same(mixed_list(), 0.1, {.shards = shards}, /*devices=*/3);
  const Tensors gradients = mixed_list(), before = cloned(gradients);
  CHECK(clip(gradients, 1e-2, {.defer = true}, /*devices=*/2).grad_scale.item<float>() > 100);
  CHECK(same_bits(gradients, before));
}

}  // namespace ddpscope::test::clip_test
