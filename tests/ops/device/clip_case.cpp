#include "tests/ops/device/clip_case.h"

namespace ddpscope::test::clip_test {

SpreadList::SpreadList(const Tensors& gradients, int devices, clip::Change change)
    : tensors(static_cast<std::size_t>(devices), Tensors(gradients.size())) {
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    tensors[i % tensors.size()][i] = gradients[i];
  }
  for (const Tensors& list : tensors) {
    tables.push_back(clip::Table::of_devices(list, ClipInput::kGradients, change).front());
  }
  for (const clip::Table& table : tables) portions.push_back({table, test_place()});
  if (devices > 1) portions.back().place.reset();
}

ClipResult clip(const Tensors& gradients, double max_norm, const ClipOptions& options,
                int devices) {
  const at::NoGradGuard no_grad;
  const SpreadList list(gradients, devices);
  return clip_on_devices(list.portions, max_norm, options, clip::begin_shards(max_norm, options));
}

ClipResult clip_on_cpu(const Tensors& gradients, double max_norm, ClipOptions options) {
  options.input = ClipInput::kGradients;
  return clip_grad_norm_(gradients, max_norm, options);
}

bool is_near(const at::Tensor& found, const at::Tensor& expected, double limit) {
  return torch::allclose(found, expected, limit, 0, /*equal_nan=*/true);
}

void check_same(const Tensors& gradients, double max_norm, const ClipOptions& options,
                int devices) {
  const Tensors here = cloned(gradients), there = cloned(gradients);
  const ClipResult found = clip(here, max_norm, options, devices);
  const ClipResult expected = clip_on_cpu(there, max_norm, options);
  CHECK(is_near(found.total_norm, expected.total_norm));
  CHECK(is_near(found.coefficient, expected.coefficient));
  CHECK(is_near(found.tensor_norms, expected.tensor_norms));
  CHECK(is_near(found.max_abs, expected.max_abs));
  CHECK(same_bits(found.nan_counts, expected.nan_counts));
  CHECK(same_bits(found.inf_counts, expected.inf_counts));
  CHECK(same_bits(found.first_bad, expected.first_bad));
  CHECK(same_bits(found.found_inf, expected.found_inf));
  CHECK(is_near(found.grad_scale, expected.grad_scale, 1e-6));
  CHECK(found.module_norms.defined() == expected.module_norms.defined());
  if (expected.module_norms.defined()) CHECK(is_near(found.module_norms, expected.module_norms));
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    INFO("gradient " << i << ", " << gradients[i].sizes() << " " << gradients[i].scalar_type());
    CHECK(is_near(here[i].to_dense().to(at::kComplexDouble),
                  there[i].to_dense().to(at::kComplexDouble), 1e-6));
  }
}

at::Tensor random_of(std::int64_t elements, at::ScalarType type, std::int64_t offset) {
  return torch::randn({elements + offset}, at::kDouble).to(type).slice(0, offset);
}

Tensors mixed_list() {
  return {random_of(5000, at::kFloat),  random_of(0, at::kFloat),
          random_of(1, at::kHalf),      random_of(2049, at::kBFloat16, 1),
          random_of(40'000, at::kHalf), random_of(2048, at::kDouble, 1),
          random_of(17, at::kFloat, 3), random_of(16'384, at::kFloat, 1)};
}

}  // namespace ddpscope::test::clip_test
