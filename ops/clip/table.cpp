#include "ops/clip/table.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_unique.h>
#include <ATen/ops/arange.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "ops/parallel.h"
#include "ops/traced.h"

namespace ddpscope::clip {
namespace {

constexpr std::int64_t kFewElements = std::int64_t{1} << 26;
constexpr std::int64_t kSmallChunk = 16384;
constexpr std::int64_t kLargeChunk = 65536;

std::optional<Kind> kind_of(at::ScalarType type) {
  switch (c10::toRealValueType(type)) {
    case at::kHalf:
      return Kind::kHalf;
    case at::kBFloat16:
      return Kind::kBFloat16;
    case at::kFloat:
      return Kind::kFloat;
    case at::kDouble:
      return Kind::kDouble;
    default:
      return std::nullopt;
  }
}

bool overlaps_itself(const at::Tensor& tensor) {
  if (tensor.is_non_overlapping_and_dense()) return false;
  if (at::has_internal_overlap(tensor) == at::MemOverlap::Yes) return true;
  std::int64_t extent = 1;
  std::vector<std::pair<std::int64_t, std::int64_t>> steps;  // stride and size
  for (std::int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.size(i) > 1) steps.emplace_back(tensor.stride(i), tensor.size(i));
  }
  std::ranges::sort(steps);
  bool is_nested = true;
  for (const auto& [stride, size] : steps) {
    is_nested = is_nested && stride >= extent;
    extent += stride * (size - 1);
  }
  if (is_nested) return false;
  const auto places = at::arange(extent).as_strided(tensor.sizes(), tensor.strides());
  return std::get<0>(at::_unique(places)).numel() < tensor.numel();
}

/// The values of a sparse gradient as one flat run, of the gradient itself if possible.
at::Tensor flat_values(const at::Tensor& coalesced) { return coalesced._values().contiguous(); }

bool is_written_in_place(const at::Tensor& sparse, Change change) {
  return sparse._values().is_contiguous() && (change == Change::kScale || sparse.is_coalesced());
}

void check(const at::Tensor& gradient, std::size_t i, Change change) {
  const auto place = [&] {  // put together where it is told
    return c10::str(function_of(change), ": the gradient of tensors[", i, "]");
  };
  TORCH_CHECK(gradient.device().is_cpu() || gradient.device().is_cuda(), place(), " is on ",
              gradient.device(), "; it must be on the CPU or on a CUDA device");
  TORCH_CHECK(!ops::is_traced(gradient), place(),
              " has no memory, as in a program that is traced: call torch.ops.ddpscope.",
              function_of(change), " there");
  TORCH_CHECK(kind_of(gradient.scalar_type()).has_value(), place(), " is ", gradient.scalar_type(),
              "; it must be Half, BFloat16, Float",
              change == Change::kScale ? ", Double or complex" : " or Double");
  TORCH_CHECK(gradient.layout() == at::kStrided || gradient.layout() == at::kSparse, place(),
              " has the layout ", gradient.layout(), "; it must be Strided or Sparse (COO)");
  const bool has_places = gradient.layout() == at::kStrided && !gradient._is_zerotensor();
  TORCH_CHECK(!has_places || !overlaps_itself(gradient), place(), ", of shape ", gradient.sizes(),
              " and strides ", gradient.strides(),
              ", has elements that overlap in memory: call clone() first");
}

using WriteWhole = c10::function_ref<void(const at::Tensor& flat)>;

void write_strided(const Row& row, WriteWhole write) {
  const at::Tensor copy = row.gradient->contiguous();
  write(copy);
  row.gradient->data().copy_(copy);
}

void write_sparse(const Row& row, Change change, WriteWhole write) {
  if (is_written_in_place(*row.gradient, change)) return write(row.gradient->_values());
  const at::Tensor coalesced = row.gradient->coalesce();
  const at::Tensor values = flat_values(coalesced);
  write(values);
  auto* const impl = static_cast<at::SparseTensorImpl*>(row.gradient->unsafeGetTensorImpl());
  impl->set_indices_and_values_unsafe(coalesced._indices(), values);
  impl->set_coalesced(true);
}

}  // namespace

const char* function_of(Change change) {
  return change == Change::kScale ? "clip_grad_norm_" : "clip_grad_value_";
}

std::vector<Table> Table::of_devices(at::TensorList tensors, ClipInput input, Change change) {
  const at::NoGradGuard no_grad;
  std::vector<Table> tables;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined()) continue;
    const at::Tensor& gradient = input == ClipInput::kParameters ? tensors[i].grad() : tensors[i];
    if (!gradient.defined()) continue;
    check(gradient, i, change);
    auto table = std::ranges::find(tables, gradient.device(), &Table::device);
    if (table == tables.end()) {
      tables.push_back(Table(tensors.size(), change, gradient.device()));
      table = tables.end() - 1;
    }
    table->add(gradient, i);
  }
  if (tables.empty()) tables.push_back(Table(tensors.size(), change, c10::kCPU));
  return tables;
}

Table::Table(std::size_t rows, Change change, c10::Device device)
    : change_(change), rows_(rows), device_(device) {}

void Table::add(const at::Tensor& gradient, std::size_t i) {
  ++defined_count_;
  Row& row = rows_[i];
  row.gradient = &gradient;
  row.kind = *kind_of(gradient.scalar_type());
  row.is_complex = gradient.is_complex();
  if (gradient.layout() == at::kSparse) {
    row.form = Form::kSparse;
    copies_.push_back(flat_values(gradient.coalesce()));
  } else if (gradient._is_zerotensor()) {
    row.form = Form::kZeros;
    copies_.push_back(gradient.clone(at::MemoryFormat::Contiguous));
  } else if (!gradient.is_non_overlapping_and_dense()) {
    row.form = Form::kStrided;
    copies_.push_back(gradient.contiguous());
  }
  const at::Tensor& elements = row.form == Form::kFlat ? gradient : copies_.back();
  row.elements = elements.numel();
  row.data = row.elements == 0 ? nullptr : elements.const_data_ptr();
  elements_ += row.elements;
}

std::vector<Chunk> Table::chunks() const {
  const std::int64_t size = elements_ <= kFewElements ? kSmallChunk : kLargeChunk;
  std::vector<Chunk> chunks;
  chunks.reserve(rows_.size() + static_cast<std::size_t>(elements_ / size));
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    for (std::int64_t begin = 0; begin < rows_[i].elements; begin += size) {
      chunks.push_back({i, begin, std::min(size, rows_[i].elements - begin)});
    }
  }
  return chunks;
}

std::vector<const void*> Table::starts() const {
  std::vector<const void*> starts;
  starts.reserve(rows_.size());
  for (const Row& row : rows_) {
    const bool has_memory =
        row.elements > 0 && (row.form == Form::kFlat || row.form == Form::kStrided);
    starts.push_back(has_memory ? row.gradient->const_data_ptr() : nullptr);
  }
  return starts;
}

bool Table::shares_memory() const {
  std::vector<std::pair<std::uintptr_t, std::uintptr_t>> spans;
  spans.reserve(rows_.size());
  for (const Row& row : rows_) {
    if (row.form != Form::kFlat || row.elements == 0) continue;
    const auto begin = reinterpret_cast<std::uintptr_t>(row.data);
    spans.emplace_back(begin, begin + static_cast<std::size_t>(row.elements * row.element_bytes()));
  }
  std::ranges::sort(spans);
  const auto meet = [](const auto& left, const auto& right) { return left.second > right.first; };
  return std::ranges::adjacent_find(spans, meet) != spans.end();
}

void Table::check_takes(double factor) const {
  if (std::isfinite(factor)) return;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    TORCH_CHECK(rows_[i].form != Form::kZeros || rows_[i].elements == 0, function(),
                ": the gradient of tensors[", i, "] is of zeros without memory, which times ",
                factor, " are NaN: call clone() on it first. No gradient was changed");
  }
}

void Table::write(Wanted wanted, Write write) const {
  std::vector<Chunk> flat = chunks();
  std::erase_if(flat, [&](const Chunk& chunk) {
    return rows_[chunk.row].form != Form::kFlat || !wanted(chunk.row);
  });
  write_flat(flat, write);
  write_copied(wanted, write);
}

void Table::write_copied(Wanted wanted, Write write) const {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const Row& row = rows_[i];
    const bool is_copied = row.form == Form::kStrided || row.form == Form::kSparse;
    if (!is_copied || row.elements == 0 || !wanted(i)) continue;
    const auto whole = [&](const at::Tensor& flat) {
      write(i, flat.mutable_data_ptr(), row.is_complex ? 2 * flat.numel() : flat.numel());
    };
    row.form == Form::kStrided ? write_strided(row, whole) : write_sparse(row, change_, whole);
  }
}

void Table::write_flat(const std::vector<Chunk>& chunks, Write write) const {
  std::vector<char*> starts(rows_.size());
  for (const Chunk& chunk : chunks) {
    if (chunk.begin == 0) {
      starts[chunk.row] = static_cast<char*>(rows_[chunk.row].gradient->mutable_data_ptr());
    }
  }
  const auto run = [&](std::int64_t begin, std::int64_t end) {
    ops::from_the_end(begin, end, [&](std::int64_t i) {
      const Chunk& chunk = chunks[static_cast<std::size_t>(i)];
      const Row& row = rows_[chunk.row];
      write(chunk.row, starts[chunk.row] + chunk.begin * row.element_bytes(),
            row.is_complex ? 2 * chunk.elements : chunk.elements);
    });
  };
  const auto count = static_cast<std::int64_t>(chunks.size());
  if (ops::is_worth_threads(elements_) && shares_memory()) return run(0, count);
  ops::for_ranges(count, elements_, run);
}

}  // namespace ddpscope::clip
