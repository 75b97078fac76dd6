#include <c10/core/DeviceGuard.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <ddpscope/ops/clip_grad.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "ops/clip/devices.h"
#include "ops/clip/measure.h"
#include "ops/clip/result.h"
#include "ops/clip/table.h"

namespace ddpscope {
namespace clip {
namespace {

constexpr const char* kClampFunction = "clip_grad_value_";

/// Magnitudes are compared as bits, which have the order of the numbers up to infinity.
template <class T, class Bits>
void clamp_values(void* data, std::int64_t values, double limit) {
  constexpr Bits kMagnitude = static_cast<Bits>(~Bits{0}) >> 1;
  const auto bits_of = [](T value) { return std::bit_cast<Bits>(value) & kMagnitude; };
  const Bits infinity = bits_of(static_cast<T>(HUGE_VAL));
  const Bits highest = bits_of(static_cast<T>(limit));
  auto* const bits = static_cast<Bits*>(data);
  for (std::int64_t i = 0; i < values; ++i) {
    const Bits magnitude = bits[i] & kMagnitude;
    const bool is_beyond = magnitude > highest && magnitude <= infinity;
    bits[i] = is_beyond ? static_cast<Bits>((bits[i] & ~kMagnitude) | highest) : bits[i];
  }
}

void clamp(Kind kind, void* data, std::int64_t values, double limit) {
  switch (kind) {
    case Kind::kHalf:
      return clamp_values<c10::Half, std::uint16_t>(data, values, limit);
    case Kind::kBFloat16:
      return clamp_values<c10::BFloat16, std::uint16_t>(data, values, limit);
    case Kind::kFloat:
      return clamp_values<float, std::uint32_t>(data, values, limit);
    default:
      return clamp_values<double, std::uint64_t>(data, values, limit);
  }
}

/// `limit` as the dtype of the gradient has it.
double rounded(Kind kind, double limit) {
  switch (kind) {
    case Kind::kHalf:
      return static_cast<c10::Half>(static_cast<float>(limit));
    case Kind::kBFloat16:
      return static_cast<c10::BFloat16>(static_cast<float>(limit));
    case Kind::kFloat:
      return static_cast<float>(limit);
    default:
      return limit;
  }
}

ValueClipResult clamp_on_cpu(const Table& table, double limit) {
  const Measure measure(table, /*p=*/0);
  ValueClipResult result = {nan_counts_of(measure), inf_counts_of(measure)};
  const auto& rows = table.rows();
  const auto is_wanted = [&](std::size_t row) {
    return measure.rows()[row].max_abs > rounded(rows[row].kind, limit);
  };
  table.write(is_wanted, [&](std::size_t row, void* data, std::int64_t values) {
    clamp(rows[row].kind, data, values, rounded(rows[row].kind, limit));
  });
  return result;
}

ValueClipResult clamp_on_device(const Table& table, double limit, const device::Place& place) {
  const DeviceMeasure measure(table, place, {}, {.p = 0, .max_norm = HUGE_VAL});
  measure.clamp(limit);
  return {measure.result().nan_counts(), measure.result().inf_counts()};
}

}  // namespace

ValueClipResult clamp_on_devices(std::span<const Portion> portions, double limit) {
  const c10::Device main = main_place(portions).device;
  const c10::DeviceGuard guard(main);
  ValueClipResult all;
  for (const auto& [table, place] : portions) {
    ValueClipResult some =
        place ? clamp_on_device(table, limit, *place) : clamp_on_cpu(table, limit);
    some = {some.nan_counts.to(main), some.inf_counts.to(main)};
    all = all.nan_counts.defined()
              ? ValueClipResult{all.nan_counts + some.nan_counts, all.inf_counts + some.inf_counts}
              : some;
  }
  return all;
}

}  // namespace clip

inline namespace api0 {

ValueClipResult clip_grad_value_(at::TensorList tensors, double limit, ClipInput input) {
  TORCH_CHECK(limit >= 0, clip::kClampFunction, ": limit must not be negative or NaN, but is ",
              limit);
  const auto tables = clip::Table::of_devices(tensors, input, clip::Change::kClamp);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto is_complex = [i](const clip::Table& table) { return table.rows()[i].is_complex; };
    TORCH_CHECK(std::ranges::none_of(tables, is_complex), clip::kClampFunction,
                ": the gradient of tensors[", i, "] is complex, which has no order");
  }
  const clip::Table& table = tables.front();
  if (tables.size() > 1 || !table.device().is_cpu()) {
    return clip::clamp_on_devices(clip::portions_of(tables), limit);
  }
  return clip::clamp_on_cpu(table, limit);
}

}  // namespace api0
}  // namespace ddpscope
