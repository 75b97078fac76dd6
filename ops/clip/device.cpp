#include "ops/clip/device.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/clip/cuda/blocks.h"
#include "ops/clip/result.h"

namespace ddpscope::clip {
namespace {

constexpr std::int64_t kMostModules = std::numeric_limits<std::uint16_t>::max();

// Of the norms of this thread, made where a late error is asked for first.
thread_local cuda::ClipNotice* late_notice = nullptr;

cuda::ClipRow row_of(const Row& row, void* data) {
  return {.data = data,
          .elements = data == nullptr ? 0 : row.elements,
          .kind = static_cast<cuda::ScalarKind>(row.kind),
          .is_complex = row.is_complex};
}

std::vector<cuda::ClipRow> rows_of(const Table& table, const std::vector<std::int32_t>& modules) {
  std::vector<cuda::ClipRow> rows;
  for (const Row& row : table.rows()) {
    rows.push_back(row_of(row, const_cast<void*>(row.data)));
    if (modules.empty()) continue;
    const std::int32_t module = modules[rows.size() - 1];
    TORCH_CHECK(module < kMostModules, "clip_grad_norm_: on a device module_of must be below ",
                kMostModules, ", but module_of[", rows.size() - 1, "] is ", module);
    rows.back().module = static_cast<std::uint16_t>(module);
  }
  return rows;
}

// Whether both lists name the same memory.
bool are_same(const std::vector<cuda::ClipRow>& left, const std::vector<cuda::ClipRow>& right) {
  return std::ranges::equal(left, right, [](const cuda::ClipRow& a, const cuda::ClipRow& b) {
    return a.data == b.data && a.elements == b.elements;
  });
}

cuda::ClipLayout layout_of(const Table& table, const std::vector<std::int32_t>& modules) {
  return {static_cast<std::int64_t>(table.rows().size()),
          modules.empty() ? 0 : 1 + std::ranges::max(modules)};
}

at::Tensor scale_on(const at::Tensor& scale, const device::Place& place) {
  if (!scale.defined()) return scale;
  TORCH_CHECK(scale.scalar_type() == at::kFloat && scale.numel() == 1 &&
                  (scale.is_cpu() || scale.device() == place.device),
              "clip_grad_norm_: inverse_scale must be one Float on the CPU or on ", place.device,
              ", but is ", scale.scalar_type(), " of shape ", scale.sizes(), " on ",
              scale.device());
  return scale.to(place.device);
}

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

}  // namespace

Listing::Listing(std::vector<cuda::ClipRow>& rows, const device::Place& place) {
  if (rows.size() <= cuda::kRowsOfArguments || place.is_capturing()) return;
  const std::vector<std::byte> bytes = cuda::pack_listing(rows, listing);
  const c10::DeviceGuard guard(place.device);
  memory = place.upload(bytes);
  cuda::place_listing(memory.const_data_ptr(), listing);
}

DeviceMeasure::DeviceMeasure(const Table& table, const device::Place& place,
                             const std::vector<std::int32_t>& module_of, const cuda::ClipRule& rule,
                             cuda::ClipNotice* notice)
    : table_(table),
      place_(place),
      layout_(layout_of(table, module_of)),
      rows_(rows_of(table, module_of)),
      listing_(rows_, place) {
  const c10::DeviceGuard guard(place.device);
  const std::int64_t records = layout_.rows + place.kernels->clip_parts(rows_);
  sums_ = place.empty(records * static_cast<std::int64_t>(sizeof(cuda::ClipSums)), at::kByte);
  result_ = place.empty(layout_.items(), at::kDouble);
  const at::Tensor tickets = place.tickets(1 + layout_.rows);
  auto* const sums = static_cast<cuda::ClipSums*>(sums_.mutable_data_ptr());
  const cuda::ClipBuffers buffers = {
      .rows = sums,
      .parts = sums + layout_.rows,
      .tickets = reinterpret_cast<unsigned*>(tickets.mutable_data_ptr<int>()),
      .result = result_.mutable_data_ptr<double>(),
      .notice = notice};
  place.check(
      place.kernels->clip_norm({rows_, listing_.listing, rule, layout_, buffers}, place.stream),
      "the norm of the gradients");
}

at::Tensor DeviceMeasure::item(std::int64_t index) const { return result_.select(0, index); }

at::Tensor DeviceMeasure::nan_counts() const {
  return result_.view(at::kLong).narrow(0, layout_.nan_counts(), layout_.rows);
}

at::Tensor DeviceMeasure::inf_counts() const {
  return result_.view(at::kLong).narrow(0, layout_.inf_counts(), layout_.rows);
}

double DeviceMeasure::total() const { return item(cuda::ClipLayout::kTotal).item<double>(); }

ClipResult DeviceMeasure::result() const {
  using Layout = cuda::ClipLayout;
  const at::Tensor flags = result_.narrow(0, Layout::kFlags, 1).view(at::kFloat);
  ClipResult result;
  result.total_norm = item(Layout::kTotal);
  result.coefficient = item(Layout::kCoefficient);
  result.tensor_norms = result_.narrow(0, Layout::kNorms, layout_.rows);
  if (layout_.modules > 0) {
    result.module_norms = result_.narrow(0, layout_.module_norms(), layout_.modules);
  }
  result.max_abs = result_.narrow(0, layout_.max_abs(), layout_.rows);
  result.nan_counts = nan_counts();
  result.inf_counts = inf_counts();
  result.first_bad = result_.view(at::kLong).select(0, Layout::kFirstBad);
  result.found_inf = flags.select(0, 0);
  result.grad_scale = flags.select(0, 1);
  return result;
}

void DeviceMeasure::combine(const ShardCall& shards, const cuda::ClipRule& rule,
                            const at::Tensor& inverse_scale) const {
  const c10::DeviceGuard guard(place_.device);
  const at::NoGradGuard no_grad;
  const ClipResult own = result();
  const bool is_present = std::ranges::any_of(rows_, &cuda::ClipRow::elements);
  const ShardTensors all = over_shards(
      shards, {.norm = own.total_norm, .is_bad = own.found_inf.to(at::kDouble)}, is_present);
  const Decision decision = decide(all, rule, inverse_scale);
  own.total_norm.copy_(all.norm);
  own.coefficient.copy_(decision.coefficient);
  item(cuda::ClipLayout::kFactor).copy_(decision.factor);
  own.found_inf.copy_(decision.found_inf);
  own.grad_scale.copy_(decision.factor.reciprocal());
  const at::Tensor is_elsewhere = all.is_bad.gt(0).logical_and(own.first_bad.lt(0));
  own.first_bad.copy_(at::where(is_elsewhere, at::full_like(own.first_bad, -2), own.first_bad));
}

void DeviceMeasure::scale(bool zeroes_bad) const {
  write({.factor = result_.const_data_ptr<double>() + cuda::ClipLayout::kFactor,
         .zeroes_bad = zeroes_bad});
}

void DeviceMeasure::scale_by(double factor) const {
  item(cuda::ClipLayout::kFactor).fill_(factor);
  scale(/*zeroes_bad=*/false);
}

void DeviceMeasure::clamp(double limit) const {
  write({.write = cuda::ClipWrite::kClamp, .limit = limit});
}

void DeviceMeasure::write(cuda::ClipWriteCall call) const {
  const c10::DeviceGuard guard(place_.device);
  const auto* const sums = static_cast<const cuda::ClipSums*>(sums_.const_data_ptr());
  const auto launch = [&](std::span<const cuda::ClipRow> rows, std::size_t first) {
    call.rows = rows;
    call.sums = sums + first;
    place_.check(place_.kernels->clip_write(call, place_.stream), "the change of the gradients");
  };
  std::vector<cuda::ClipRow> flat;
  for (const Row& row : table_.rows()) {
    const bool is_written = row.form == Form::kFlat && row.elements > 0;
    flat.push_back(row_of(row, is_written ? row.gradient->mutable_data_ptr() : nullptr));
  }
  if (table_.shares_memory()) {  // what is listed twice is changed twice, one after the other
    for (std::size_t i = 0; i < flat.size(); ++i) launch({&flat[i], 1}, i);
  } else {
    const Listing listing = are_same(flat, rows_) ? listing_ : Listing(flat, place_);
    call.listing = listing.listing;
    launch(flat, 0);
    call.listing = {};
  }
  const auto all = [](std::size_t) { return true; };
  table_.write_copied(all, [&](std::size_t row, void* data, std::int64_t values) {
    const cuda::ClipRow one = {.data = data,
                               .elements = values,
                               .kind = static_cast<cuda::ScalarKind>(table_.rows()[row].kind)};
    launch({&one, 1}, row);
  });
}

ClipResult clip_on_device(const Table& table, double max_norm, const ClipOptions& options,
                          const device::Place& place, const ShardCall& shards) {
  check_shards(options);
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
  const DeviceMeasure measure(table, place, options.module_of, rule,
                              throws_late ? notice_of_thread(place) : nullptr);
  if (shards.group != nullptr) measure.combine(shards, rule, inverse_scale);
  ClipResult result = measure.result();
  if (options.on_non_finite == NonFinite::kThrow) {
    const double total = measure.total();
    if (!std::isfinite(total)) {
      Culprit culprit = {.total = total, .row = result.first_bad.item<std::int64_t>()};
      if (culprit.row >= 0) {
        culprit.nan_count = result.nan_counts.select(0, culprit.row).item<std::int64_t>();
        culprit.inf_count = result.inf_counts.select(0, culprit.row).item<std::int64_t>();
      }
      TORCH_CHECK(false, "clip_grad_norm_: ", told(culprit), ". No gradient was changed");
    }
  }
  const bool is_changed = !std::isinf(max_norm) || inverse_scale.defined() || zeroes_bad;
  if (is_changed && !options.defer) measure.scale(zeroes_bad);
  return result;
}

ValueClipResult clamp_on_device(const Table& table, double limit, const device::Place& place) {
  const DeviceMeasure measure(table, place, {}, {.p = 0, .max_norm = HUGE_VAL});
  measure.clamp(limit);
  return {measure.nan_counts(), measure.inf_counts()};
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
