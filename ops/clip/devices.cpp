#include "ops/clip/devices.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "ops/clip/result.h"
#include "ops/clip/scale.h"

namespace ddpscope::clip {
namespace {

// Of the norms of this thread, made where a late error is asked for first.
thread_local cuda::ClipNotice* late_notice = nullptr;

at::Tensor scale_on(const at::Tensor& scale, const device::Place& place) {
  if (!scale.defined()) return scale;
  TORCH_CHECK(scale.scalar_type() == at::kFloat && scale.numel() == 1 &&
                  (scale.is_cpu() || scale.device() == place.device),
              "clip_grad_norm_: inverse_scale must be one Float on the CPU or on ", place.device,
              ", but is ", scale.scalar_type(), " of shape ", scale.sizes(), " on ",
              scale.device());
  return scale.to(place.device);
}

void check_shards(const ClipOptions& options) {
  if (!options.shards) return;
  TORCH_CHECK(
      options.on_non_finite != NonFinite::kThrowLater,
      "clip_grad_norm_: on a device kThrowLater knows the norm of the own shards alone; use "
      "throw_if_non_finite() of the result");
  TORCH_CHECK(options.on_non_finite != NonFinite::kZeroTensor || options.norm_type >= 0,
              "clip_grad_norm_: on a device kZeroTensor with shards is not for norms of order ",
              options.norm_type);
}

cuda::ClipNotice* notice_of_thread(const device::Place& place) {
  if (late_notice == nullptr) {
    late_notice = static_cast<cuda::ClipNotice*>(place.make_notice(sizeof(cuda::ClipNotice)));
  }
  return late_notice;
}

/// As a device has them.
std::vector<cuda::ClipSums> sums_of(const Table& table, const Measure& measure,
                                    const std::vector<std::int32_t>& module_of) {
  std::vector<cuda::ClipSums> all;
  for (std::size_t i = 0; i < measure.rows().size(); ++i) {
    const Sums& sums = measure.rows()[i];
    all.push_back({.power_sum = sums.power_sum,
                   .max_abs = sums.max_abs,
                   .nan_count = sums.nan_count,
                   .inf_count = sums.inf_count,
                   .is_present = table.rows()[i].elements > 0,
                   .module = module_of.empty() ? 0 : module_of[i]});
  }
  return all;
}

}  // namespace

std::vector<Portion> portions_of(const std::vector<Table>& tables) {
  std::vector<Portion> portions;
  for (const Table& table : tables) {
    Portion& portion = portions.emplace_back(table);
    if (table.device().is_cpu()) continue;
    portion.place = device::current_place(table.device());
    TORCH_CHECK(tables.size() == 1 || !portion.place->is_capturing(), table.function(),
                ": gradients of several devices cannot be clipped while a graph is captured on ",
                table.device());
  }
  return portions;
}

const device::Place& main_place(std::span<const Portion> portions) {
  return *std::ranges::find_if(portions, [](const Portion& portion) {
            return portion.place.has_value();
          })->place;
}

DevicesMeasure::DevicesMeasure(std::span<const Portion> portions,
                               const std::vector<std::int32_t>& module_of,
                               const cuda::ClipRule& rule, cuda::ClipNotice* notice)
    : portions_(portions) {
  const bool is_one = portions.size() == 1;
  for (const auto& [table, place] : portions) {
    if (!place) {
      cpu_table_ = &table;
    } else if (is_one) {
      of_devices_.emplace_back(table, *place, module_of, rule, notice);
    } else {
      of_devices_.emplace_back(table, *place, module_of,
                               cuda::ClipRule{.p = rule.p, .max_norm = HUGE_VAL});
    }
  }
  // While the devices are at work.
  if (cpu_table_ != nullptr) of_cpu_.emplace(*cpu_table_, rule.p);
  if (!is_one) join(module_of, rule, notice);
}

at::Tensor DevicesMeasure::gather(const std::vector<std::int32_t>& module_of) const {
  const device::Place& place = main_place(portions_);
  std::vector<at::Tensor> sums;
  for (const DeviceMeasure& measure : of_devices_) {
    sums.push_back(measure.sums().to(place.device, /*non_blocking=*/true));
  }
  if (of_cpu_) {
    const auto of_cpu = clip::sums_of(*cpu_table_, *of_cpu_, module_of);
    sums.push_back(place.upload(std::as_bytes(std::span(of_cpu))));
  }
  return at::cat(sums);
}

void DevicesMeasure::join(const std::vector<std::int32_t>& module_of, const cuda::ClipRule& rule,
                          cuda::ClipNotice* notice) {
  const device::Place& place = main_place(portions_);
  const c10::DeviceGuard guard(place.device);
  const at::Tensor sums = gather(module_of);
  joined_.emplace(place, of_devices_.front().result().layout());
  rows_ = at::empty_like(of_devices_.front().sums());
  const cuda::ClipJoinCall call = {
      .sums = static_cast<const cuda::ClipSums*>(sums.const_data_ptr()),
      .devices = static_cast<int>(portions_.size()),
      .rule = rule,
      .layout = joined_->layout(),
      .buffers = {.rows = static_cast<cuda::ClipSums*>(rows_.mutable_data_ptr()),
                  .result = joined_->data(),
                  .notice = notice}};
  place.check(place.kernels->clip_join(call, place.stream), "the norm of all gradients");
}

bool DevicesMeasure::has_elements() const {
  return std::ranges::any_of(portions_,
                             [](const Portion& portion) { return portion.table.elements() > 0; });
}

void DevicesMeasure::scale(bool zeroes_bad) const {
  Verdict verdict;
  if (of_cpu_) {  // before more is queued, for which it would wait
    verdict = {.coefficient = result().factor().item<double>(),
               .has_bad = of_cpu_->first_bad() >= 0,
               .zeroes_bad = zeroes_bad};
    cpu_table_->check_takes(verdict.factor());
  }
  for (const DeviceMeasure& measure : of_devices_) {
    if (joined_) measure.result().factor().copy_(result().factor(), /*non_blocking=*/true);
    measure.scale(zeroes_bad);
  }
  if (of_cpu_) clip::scale(*cpu_table_, *of_cpu_, verdict);
}

void DevicesMeasure::scale_by(double factor) const {
  result().factor().fill_(factor);
  scale(/*zeroes_bad=*/false);
}

ClipResult clip_on_devices(std::span<const Portion> portions, double max_norm,
                           const ClipOptions& options, const ShardCall& shards) {
  check_shards(options);
  const device::Place& place = main_place(portions);
  const at::Tensor inverse_scale = scale_on(options.inverse_scale, place);
  const bool zeroes_bad = options.on_non_finite == NonFinite::kZeroTensor;
  const cuda::ClipRule rule = {
      .p = options.norm_type,
      .max_norm = max_norm,
      .eps = options.eps,
      .unscales = inverse_scale.defined(),
      .spares_bad = options.on_non_finite == NonFinite::kSkip,
      .zeroes_bad = zeroes_bad,
      .inverse_scale = inverse_scale.defined() ? inverse_scale.const_data_ptr<float>() : nullptr};
  const bool throws_late = options.on_non_finite == NonFinite::kThrowLater;
  const DevicesMeasure measure(portions, options.module_of, rule,
                               throws_late ? notice_of_thread(place) : nullptr);
  const DeviceResult& result = measure.result();
  if (shards.group != nullptr) {
    result.combine(shards, rule, inverse_scale, measure.has_elements());
  }
  if (options.on_non_finite == NonFinite::kThrow) result.throw_if_refused();
  const bool is_changed = !std::isinf(max_norm) || inverse_scale.defined() || zeroes_bad;
  if (is_changed && !options.defer) measure.scale(zeroes_bad);
  return result.views();
}

std::string take_late_notice() {
  if (late_notice == nullptr || late_notice->is_there == 0) return "";
  const Culprit culprit = {.total = late_notice->total,
                           .row = late_notice->first_bad,
                           .nan_count = late_notice->nan_count,
                           .inf_count = late_notice->inf_count};
  late_notice->is_there = 0;
  return told(culprit);
}

}  // namespace ddpscope::clip
