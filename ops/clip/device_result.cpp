#include "ops/clip/device_result.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/DeviceGuard.h>

#include <cmath>

#include "ops/clip/result.h"

namespace ddpscope::clip {
namespace {

struct Decision {
  at::Tensor coefficient;  // Double, [], as the others
  at::Tensor factor;
  at::Tensor found_inf;
};

// As the kernel that finishes a norm decides.
Decision decide(const ShardTensors& all, const cuda::ClipRule& rule,
                const at::Tensor& inverse_scale) {
  const at::Tensor one = at::ones_like(all.norm);
  at::Tensor is_spared = at::zeros_like(all.norm, at::kBool);
  if (rule.unscales || rule.spares_bad) is_spared = all.is_bad.gt(0);
  if (rule.spares_bad) is_spared = is_spared.logical_or(all.norm.isfinite().logical_not());
  const bool is_limited = !std::isinf(rule.max_norm);
  const at::Tensor limit =
      is_limited ? (rule.max_norm / (all.norm + rule.eps)).clamp_max(1) : one;  // a NaN stays
  Decision decision{.coefficient = at::where(is_spared, one, limit)};
  decision.factor = decision.coefficient;
  if (inverse_scale.defined()) {
    decision.factor = decision.coefficient * inverse_scale.to(at::kDouble).reshape({});
  }
  decision.found_inf = rule.spares_bad ? is_spared.logical_or(all.is_bad.gt(0)) : all.is_bad.gt(0);
  return decision;
}

}  // namespace

DeviceResult::DeviceResult(const device::Place& place, const cuda::ClipLayout& layout)
    : place_(place), layout_(layout), items_(place.empty(layout.items(), at::kDouble)) {}

at::Tensor DeviceResult::nan_counts() const {
  return items_.view(at::kLong).narrow(0, layout_.nan_counts(), layout_.rows);
}

at::Tensor DeviceResult::inf_counts() const {
  return items_.view(at::kLong).narrow(0, layout_.inf_counts(), layout_.rows);
}

double DeviceResult::total() const { return item(cuda::ClipLayout::kTotal).item<double>(); }

ClipResult DeviceResult::views() const {
  using Layout = cuda::ClipLayout;
  const at::Tensor flags = items_.narrow(0, Layout::kFlags, 1).view(at::kFloat);
  ClipResult result;
  result.total_norm = item(Layout::kTotal);
  result.coefficient = item(Layout::kCoefficient);
  result.tensor_norms = items_.narrow(0, Layout::kNorms, layout_.rows);
  if (layout_.modules > 0) {
    result.module_norms = items_.narrow(0, layout_.module_norms(), layout_.modules);
  }
  result.max_abs = items_.narrow(0, layout_.max_abs(), layout_.rows);
  result.nan_counts = nan_counts();
  result.inf_counts = inf_counts();
  result.first_bad = items_.view(at::kLong).select(0, Layout::kFirstBad);
  result.found_inf = flags.select(0, 0);
  result.grad_scale = flags.select(0, 1);
  return result;
}

void DeviceResult::throw_if_refused() const {
  Culprit culprit = {.total = total()};
  if (std::isfinite(culprit.total)) return;
  const ClipResult result = views();
  culprit.row = result.first_bad.item<std::int64_t>();
  if (culprit.row >= 0) {
    culprit.nan_count = result.nan_counts.select(0, culprit.row).item<std::int64_t>();
    culprit.inf_count = result.inf_counts.select(0, culprit.row).item<std::int64_t>();
  }
  TORCH_CHECK(false, "clip_grad_norm_: ", told(culprit), ". No gradient was changed");
}

void DeviceResult::combine(const ShardCall& shards, const cuda::ClipRule& rule,
                           const at::Tensor& inverse_scale, bool is_present) const {
  const c10::DeviceGuard guard(place_.device);
  const at::NoGradGuard no_grad;
  const ClipResult own = views();
  const ShardTensors all = over_shards(
      shards, {.norm = own.total_norm, .is_bad = own.found_inf.to(at::kDouble)}, is_present);
  const Decision decision = decide(all, rule, inverse_scale);
  own.total_norm.copy_(all.norm);
  own.coefficient.copy_(decision.coefficient);
  factor().copy_(decision.factor);
  own.found_inf.copy_(decision.found_inf);
  own.grad_scale.copy_(decision.factor.reciprocal());
  const at::Tensor is_elsewhere = all.is_bad.gt(0).logical_and(own.first_bad.lt(0));
  own.first_bad.copy_(at::where(is_elsewhere, at::full_like(own.first_bad, -2), own.first_bad));
}

}  // namespace ddpscope::clip
