#include "tests/ops/device/clip_case.h"

namespace ddpscope::test::clip_test {

TEST_CASE("A device clips every order of norm as the CPU does") {
  torch::manual_seed(1);
  const double p = GENERATE(0., 1., 2., 0.5, -1., 3.5, HUGE_VAL, -HUGE_VAL);
  CAPTURE(p);
  for (const double max_norm : {0., 1e-2, 1e9, HUGE_VAL}) {
    CAPTURE(max_norm);
    check_same(mixed_list(), max_norm, {.norm_type = p});
  }
}

TEST_CASE("A device takes tensors of every size, dtype and alignment") {
  torch::manual_seed(2);
  const auto type = GENERATE(at::kHalf, at::kBFloat16, at::kFloat, at::kDouble);
  CAPTURE(type);
  for (const std::int64_t size : {0, 1, 3, 15, 2047, 2048, 2049, 16'383, 16'385, 65'537}) {
    for (const std::int64_t offset : {0, 1, 3}) {
      CAPTURE(size, offset);
      check_same({random_of(7, type), random_of(size, type, offset), random_of(9, type)}, 0.3);
    }
  }
}

TEST_CASE("A device takes more tensors than fit into one launch") {
  torch::manual_seed(3);
  const int count = GENERATE(0, 1, 8, 9, 1344, 1345, 2689);
  Tensors gradients;
  std::vector<std::int32_t> modules;
  for (int i = 0; i < count; ++i) {
    gradients.push_back(random_of(i % 11 == 5 ? 2500 : 1 + i % 40, at::kFloat));
    modules.push_back(i % 7 == 3 ? 5 : i % 3);
  }
  CAPTURE(count);
  check_same(gradients, 0.5, {.module_of = modules});
  if (count != 9 && count != 1345) return;
  gradients[8][0] = kNan;
  gradients.back()[0] = kInfinity;
  for (const auto mode : {NonFinite::kPropagate, NonFinite::kZeroTensor}) {
    check_same(gradients, 0.5, {.on_non_finite = mode});
  }
}

TEST_CASE("A device counts what is not finite and names the first") {
  torch::manual_seed(4);
  const auto mode = GENERATE(NonFinite::kPropagate, NonFinite::kSkip, NonFinite::kZeroTensor);
  for (const double bad : {kNan, kInfinity, -kInfinity}) {
    for (const std::int64_t at : {0, 20'000}) {
      Tensors gradients = {random_of(30, at::kFloat), random_of(20'001, at::kHalf),
                           random_of(30'000, at::kFloat)};
      gradients[1][at] = bad;
      gradients[2][7] = NAN;
      CAPTURE(static_cast<int>(mode), bad, at);
      check_same(gradients, 1, {.on_non_finite = mode});
      const auto unscaled = torch::full({}, 0.25, at::kFloat);
      check_same(gradients, 1, {.on_non_finite = mode, .inverse_scale = unscaled});
    }
  }
}

TEST_CASE("A device unscales in the same pass, and writes no byte for a factor of 1") {
  torch::manual_seed(5);
  const Tensors gradients = mixed_list();
  check_same(gradients, 1, {.inverse_scale = torch::full({}, 1.F / 1024)});
  check_same(gradients, HUGE_VAL, {.norm_type = 1, .inverse_scale = torch::full({1}, 0.5F)});
  Tensors kept = cloned(gradients);
  kept[0][3] = -0.0;
  const Tensors before = cloned(kept);
  clip(kept, 1e9);
  CHECK(same_bits(kept, before));
}

TEST_CASE("A device takes strided, sparse, complex and repeated gradients") {
  torch::manual_seed(6);
  const auto indices = torch::tensor({{1, 4, 1}}, at::kLong);
  const auto sparse = torch::sparse_coo_tensor(indices, torch::randn({3, 4}), {6, 4});
  const auto twice = random_of(5000, at::kFloat);
  auto complex = torch::randn({3000}, at::kComplexFloat);
  check_same({torch::randn({40, 90}).slice(1, 0, 90, 2), sparse, complex,
              torch::randn({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast)},
             0.5);
  complex[5] = c10::complex<float>(NAN, HUGE_VAL);
  check_same({complex}, 0.5);
  const auto here = twice.clone(), there = twice.clone();
  clip({here, here}, 1);
  clip_on_cpu({there, there}, 1);
  CHECK(is_near(here, there, 1e-6));
}

TEST_CASE("A norm that is not finite throws at once, or at the next call, with the same words") {
  Tensors gradients = {torch::ones({4}), torch::ones({5000})};
  gradients[1][4999] = HUGE_VAL;
  const Tensors before = cloned(gradients);
  const auto at_once = thrown_by([&] { clip(gradients, 1, {.on_non_finite = NonFinite::kThrow}); });
  CHECK(says(at_once,
             "the first gradient that is not finite is that of tensors[1], with 0 NaN and "
             "1 Inf. No gradient was changed"));
  CHECK(same_bits(gradients, before));
  clip(gradients, 1, {.on_non_finite = NonFinite::kThrowLater});
  const auto later = thrown_by(throw_if_earlier_non_finite);
  CHECK(says(later,
             "in an earlier call of this thread the total norm is inf; the first gradient "
             "that is not finite is that of tensors[1], with 0 NaN and 1 Inf"));
  CHECK(thrown_by(throw_if_earlier_non_finite).empty());
  clip({torch::ones({4})}, 1, {.on_non_finite = NonFinite::kThrowLater});
  CHECK(thrown_by(throw_if_earlier_non_finite).empty());
}

TEST_CASE("A device combines shards as the CPU does") {
  torch::manual_seed(8);
  const double p = GENERATE(0., 1., 2., 0.5, -1., 3.5, HUGE_VAL, -HUGE_VAL);
  using Record = std::vector<double>;
  const Record record =
      GENERATE(Record{3, 1, 0}, Record{0, 0, 0}, Record{NAN, 1, 1}, Record{HUGE_VAL, 1, 0});
  CAPTURE(p, record[0]);
  const auto shards = std::make_shared<BesideAnother>(record);
  const auto scale = torch::full({}, 0.25, at::kFloat);
  for (const double max_norm : {1e-2, 1e9, HUGE_VAL}) {
    for (const auto mode : {NonFinite::kPropagate, NonFinite::kSkip}) {
      CAPTURE(max_norm, static_cast<int>(mode));
      check_same(mixed_list(), max_norm, {.norm_type = p, .on_non_finite = mode, .shards = shards});
      check_same({}, max_norm, {.norm_type = p, .on_non_finite = mode, .shards = shards});
    }
  }
  check_same(mixed_list(), 1, {.norm_type = p, .inverse_scale = scale, .shards = shards});
}

TEST_CASE("A device refuses what shards cannot tell it, and throws for the NaN of another rank") {
  const Tensors gradients = {random_of(30, at::kFloat)};
  const Tensors before = cloned(gradients);
  const auto shards = std::make_shared<BesideAnother>(std::vector<double>{NAN, 1, 1});
  const auto call = [&](NonFinite mode, double p) {
    return thrown_by(
        [&] { clip(gradients, 1, {.norm_type = p, .on_non_finite = mode, .shards = shards}); });
  };
  CHECK(says(call(NonFinite::kThrowLater, 2), "kThrowLater knows the norm of the own shards"));
  CHECK(says(call(NonFinite::kZeroTensor, -1), "not for norms of order -1"));
  CHECK(says(call(NonFinite::kThrow, 2),
             "another rank has a NaN or an Inf. No gradient was changed"));
  CHECK(same_bits(gradients, before));
}

TEST_CASE("A device finds no finite norm where ranks do not agree in their call") {
  const auto shards = std::make_shared<BesideAnother>(std::vector<double>{3, 1, 0});
  shards->is_ahead = true;
  const auto result =
      clip({random_of(30, at::kFloat)}, 1, {.on_non_finite = NonFinite::kSkip, .shards = shards});
  CHECK(std::isnan(result.total_norm_value()));
  CHECK(result.found_inf.item<float>() == 1);
}

TEST_CASE("A device leaves gradients as they are where the factor is deferred") {
  const Tensors gradients = {random_of(3000, at::kFloat)};
  const Tensors before = cloned(gradients);
  CHECK(clip(gradients, 1e-2, {.defer = true}).grad_scale.item<float>() > 100);
  CHECK(same_bits(gradients, before));
}

TEST_CASE("A device clamps as the CPU does, to the bit") {
  torch::manual_seed(7);
  const auto type = GENERATE(at::kHalf, at::kBFloat16, at::kFloat, at::kDouble);
  const int devices = GENERATE(1, 2, 3);
  for (const double limit : {0., 0.1, 1e6, HUGE_VAL}) {
    Tensors here = {random_of(3000, type, 1), random_of(50, type), random_of(20'000, type)};
    here[0][5] = NAN;
    here[0][6] = -HUGE_VAL;
    const Tensors there = cloned(here);
    const SpreadList list(here, devices, clip::Change::kClamp);
    const ValueClipResult found = clip::clamp_on_devices(list.portions, limit);
    const ValueClipResult expected = clip_grad_value_(there, limit, ClipInput::kGradients);
    CAPTURE(type, limit, devices);
    CHECK(same_bits(here, there));
    CHECK(same_bits(found.nan_counts, expected.nan_counts));
    CHECK(same_bits(found.inf_counts, expected.inf_counts));
  }
}

TEST_CASE("A factor of the program's own is applied to what was measured") {
  torch::manual_seed(9);
  const Tensors gradients = mixed_list(), before = cloned(gradients);
  const SpreadList list(gradients, GENERATE(1, 2, 3));
  const clip::DevicesMeasure measure(list.portions, {}, {.p = 1, .max_norm = kInfinity});
  CHECK(measure.result().total() == Approx(exact_norm(before, 1)).epsilon(1e-12));
  measure.scale_by(-0.25);
  for (std::size_t i = 0; i < before.size(); ++i) CHECK(same_bits(gradients[i], before[i] * -0.25));
}

TEST_CASE("The same list gives the same bits on a device, in whatever order its blocks run") {
  torch::manual_seed(8);
  const Tensors gradients = mixed_list();
  const auto first = clip(cloned(gradients), 1).tensor_norms.clone();
  for (int i = 0; i < 5; ++i) CHECK(same_bits(clip(cloned(gradients), 1).tensor_norms, first));
  // Wherever it lies, from 16 bytes to 16 bytes.
  const at::Tensor values = torch::randn({40'000});
  const auto norm_at = [&values](std::int64_t place) {
    const at::Tensor moved = torch::empty({40'032}).narrow(0, place, values.numel());
    return clip({moved.copy_(values)}, 1).total_norm.clone();
  };
  for (const std::int64_t place : {4, 8, 20, 28}) CHECK(same_bits(norm_at(place), norm_at(0)));
}

}  // namespace ddpscope::test::clip_test
