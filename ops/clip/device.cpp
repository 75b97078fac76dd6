#include "ops/clip/device.h"

#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <limits>

#include "ops/clip/cuda/blocks.h"

namespace ddpscope::clip {
namespace {

constexpr auto kSumsBytes = static_cast<std::int64_t>(sizeof(cuda::ClipSums));
constexpr std::int64_t kMostModules = std::numeric_limits<std::uint16_t>::max();

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
      result_(place, layout_of(table, module_of)),
      rows_(rows_of(table, module_of)),
      listing_(rows_, place) {
  const c10::DeviceGuard guard(place.device);
  const cuda::ClipLayout& layout = result_.layout();
  const std::int64_t records = layout.rows + place.kernels->clip_parts(rows_);
  sums_ = place.empty(records * kSumsBytes, at::kByte);
  const at::Tensor tickets = place.tickets(1 + layout.rows);
  auto* const sums = static_cast<cuda::ClipSums*>(sums_.mutable_data_ptr());
  const cuda::ClipBuffers buffers = {
      .rows = sums,
      .parts = sums + layout.rows,
      .tickets = reinterpret_cast<unsigned*>(tickets.mutable_data_ptr<int>()),
      .result = result_.data(),
      .notice = notice};
  place.check(
      place.kernels->clip_norm({rows_, listing_.listing, rule, layout, buffers}, place.stream),
      "the norm of the gradients");
}

at::Tensor DeviceMeasure::sums() const {
  return sums_.narrow(0, 0, result_.layout().rows * kSumsBytes);
}

void DeviceMeasure::scale(bool zeroes_bad) const {
  write({.factor = result_.data() + cuda::ClipLayout::kFactor, .zeroes_bad = zeroes_bad});
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

}  // namespace ddpscope::clip
