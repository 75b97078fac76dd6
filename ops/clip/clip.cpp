#include <ddpscope/ops/clip_grad.h>
#include <ddpscope/ops/communicator.h>

#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "ops/clip/devices.h"
#include "ops/clip/facts.h"
#include "ops/clip/measure.h"
#include "ops/clip/result.h"
#include "ops/clip/scale.h"
#include "ops/clip/shards.h"
#include "ops/clip/table.h"

namespace ddpscope {
namespace clip {
namespace {

constexpr const char* kFunction = "clip_grad_norm_";
constexpr std::int64_t kMostListedModules = 1 << 20;
thread_local std::string unthrown;  // by kThrowLater

void check_options(at::TensorList tensors, const ClipOptions& options) {
  TORCH_CHECK(!options.defer || options.on_non_finite != NonFinite::kZeroTensor, kFunction,
              ": kZeroTensor writes gradients, which `defer` leaves as they are");
  TORCH_CHECK(!std::isnan(options.norm_type), kFunction, ": norm_type must be a number, not NaN");
  TORCH_CHECK(std::isfinite(options.eps) && options.eps >= 0, kFunction,
              ": eps must be finite and not negative, but is ", options.eps);
  const auto& module_of = options.module_of;
  TORCH_CHECK(module_of.empty() || module_of.size() == tensors.size(), kFunction,
              ": module_of has ", module_of.size(), " entries for ", tensors.size(), " tensors");
  for (std::size_t i = 0; i < module_of.size(); ++i) {
    TORCH_CHECK(module_of[i] >= 0 && module_of[i] < kMostListedModules, kFunction, ": module_of[",
                i, "] is ", module_of[i], "; modules count from 0 and are below 2^20");
  }
}

double value_of_scale(const at::Tensor& inverse_scale) {
  if (!inverse_scale.defined()) return 1;
  TORCH_CHECK(inverse_scale.scalar_type() == at::kFloat && inverse_scale.numel() == 1 &&
                  inverse_scale.device().is_cpu(),
              kFunction, ": inverse_scale must be one Float on the CPU, but is ",
              inverse_scale.scalar_type(), " of shape ", inverse_scale.sizes(), " on ",
              inverse_scale.device());
  const double value = inverse_scale.item<float>();
  TORCH_CHECK(std::isfinite(value) && value > 0, kFunction,
              ": inverse_scale must be finite and above 0, but is ", value);
  return value;
}

/// min(1, max_norm / (total + eps)), where min keeps NaN.
double coefficient_of(double total, double max_norm, double eps) {
  if (std::isinf(max_norm)) return 1;
  const double factor = max_norm / (total + eps);
  return factor > 1 ? 1 : factor;
}

Verdict judge(const Measure& measure, double max_norm, const ClipOptions& options,
              const ShardCall& shards) {
  Verdict verdict;
  verdict.inverse_scale = value_of_scale(options.inverse_scale);
  verdict.zeroes_bad = options.on_non_finite == NonFinite::kZeroTensor;
  ShardNorm norm{.norm = measure.total(verdict.zeroes_bad),
                 .is_present = measure.has_any(verdict.zeroes_bad),
                 .is_bad = measure.first_bad() >= 0};
  if (options.norm_type != 0) norm.norm *= std::fabs(verdict.inverse_scale);
  if (shards.group != nullptr) norm = over_shards(shards, norm);
  verdict.total = norm.norm;
  verdict.has_bad = norm.is_bad;
  const bool is_skipped = options.inverse_scale.defined() && verdict.has_bad;
  const bool is_spared = options.on_non_finite == NonFinite::kSkip &&
                         (verdict.has_bad || !std::isfinite(verdict.total));
  if (!is_skipped && !is_spared) {
    verdict.coefficient = coefficient_of(verdict.total, max_norm, options.eps);
    verdict.is_limited = !std::isinf(max_norm);
  }
  return verdict;
}

}  // namespace
}  // namespace clip

inline namespace api0 {

ClipResult clip_grad_norm_(at::TensorList tensors, double max_norm, const ClipOptions& options) {
  using clip::kFunction;
  const clip::ShardCall shards = clip::begin_shards(max_norm, options);
  throw_if_earlier_non_finite();
  TORCH_CHECK(max_norm >= 0, kFunction, ": max_norm must not be negative or NaN, but is ",
              max_norm);
  clip::check_options(tensors, options);
  const auto tables = clip::Table::of_devices(tensors, options.input, clip::Change::kScale);
  const clip::Table& table = tables.front();
  if (tables.size() > 1 || !table.device().is_cpu()) {
    return clip_on_devices(clip::portions_of(tables), max_norm, options, shards);
  }
  const clip::Measure measure(table, options.norm_type);
  const clip::Verdict verdict = clip::judge(measure, max_norm, options, shards);
  const bool is_finite = std::isfinite(verdict.total);
  const bool is_refused = !is_finite && options.on_non_finite == NonFinite::kThrow;
  clip::tell_observer(table, measure,
                      {.max_norm = max_norm,
                       .total_norm = verdict.total,
                       .ranks = options.shards ? options.shards->size() : 1,
                       .inverse_scale = verdict.inverse_scale,
                       .coefficient = verdict.coefficient,
                       .is_limited = verdict.is_limited,
                       .is_refused = is_refused,
                       .is_deferred = options.defer});
  if (!is_finite) {
    const std::string what = told(culprit_of(measure, verdict));
    TORCH_CHECK(!is_refused, kFunction, ": ", what, ". No gradient was changed");
    if (options.on_non_finite == NonFinite::kThrowLater) clip::unthrown = what;
  }
  // The result first: what fails while memory is short must not leave gradients changed.
  ClipResult result = make_result(measure, verdict, options);
  if (!options.defer) clip::scale(table, measure, verdict);
  return result;
}

void throw_if_earlier_non_finite() {
  std::string what = std::exchange(clip::unthrown, {});
  if (what.empty()) what = clip::take_late_notice();
  if (what.empty()) return;
  TORCH_CHECK(false, "clip_grad_norm_: in an earlier call of this thread ", what);
}

}  // namespace api0
}  // namespace ddpscope
