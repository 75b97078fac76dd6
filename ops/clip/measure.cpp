#include "ops/clip/measure.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/parallel.h"

namespace ddpscope::clip {
namespace {

Sums neutral(double p) { return {.power_sum = p == -kInfinity ? kInfinity : 0}; }

void add_power(double magnitude, double p, double& sum) {
  if (p == -kInfinity) {
    sum = magnitude < sum ? magnitude : sum;
  } else if (p == 2) {
    sum += magnitude * magnitude;
  } else if (p == 1) {
    sum += magnitude;
  } else if (p != 0 && p != kInfinity) {
    sum += std::pow(magnitude, p);
  }
}

void merge(const Sums& part, double p, Sums& whole) {
  if (p == -kInfinity) {
    whole.power_sum = std::min(whole.power_sum, part.power_sum);
  } else {
    whole.power_sum += part.power_sum;
  }
  whole.max_abs = std::max(whole.max_abs, part.max_abs);
  whole.nan_count += part.nan_count;
  whole.inf_count += part.inf_count;
}

double norm_of(const Sums& sums, double p) {
  if (p == kInfinity) return sums.nan_count > 0 ? kNan : sums.max_abs;
  if (p == -kInfinity) return sums.nan_count > 0 ? kNan : sums.power_sum;
  if (p == 1) return sums.power_sum;
  if (p == 2) return std::sqrt(sums.power_sum);
  return std::pow(sums.power_sum, 1 / p);
}

/// One element after the other, with the counts that no kernel makes.
template <class T>
Sums measure_each(const T* values, std::int64_t elements, bool is_complex, double p) {
  Sums sums = neutral(p);
  for (std::int64_t i = 0; i < elements; ++i) {
    double magnitude;
    if (is_complex) {
      const double real = values[2 * i], imaginary = values[2 * i + 1];
      const bool has_nan = std::isnan(real) || std::isnan(imaginary);
      sums.inf_count += std::isinf(real) || std::isinf(imaginary);
      magnitude = has_nan ? kNan : std::hypot(real, imaginary);
    } else {
      magnitude = std::fabs(static_cast<double>(values[i]));
      sums.inf_count += std::isinf(magnitude);
    }
    sums.nan_count += std::isnan(magnitude);
    if (magnitude > sums.max_abs) sums.max_abs = magnitude;
    add_power(magnitude, p, sums.power_sum);
  }
  return sums;
}

Sums measure_each(const Row& row, const void* data, std::int64_t elements, double p) {
  const bool is_complex = row.is_complex;
  switch (row.kind) {
    case Kind::kHalf:
      return measure_each(static_cast<const c10::Half*>(data), elements, is_complex, p);
    case Kind::kBFloat16:
      return measure_each(static_cast<const c10::BFloat16*>(data), elements, is_complex, p);
    case Kind::kFloat:
      return measure_each(static_cast<const float*>(data), elements, is_complex, p);
    default:
      return measure_each(static_cast<const double*>(data), elements, is_complex, p);
  }
}

double sum_of_lanes(LaneSums& sums) {
  for (int step = kLanes / 2; step > 0; step /= 2) {
    for (int lane = 0; lane < step; ++lane) sums.lanes[lane] += sums.lanes[lane + step];
  }
  return sums.lanes[0];
}

/// The largest magnitude in `sums`; infinity also for a NaN.
double largest_of(const LaneSums& sums, Kind kind) {
  if (kind == Kind::kDouble) {
    return sums.largest < 0x7FF0000000000000 ? std::bit_cast<double>(sums.largest) : kInfinity;
  }
  const auto bits = static_cast<std::uint32_t>(sums.largest);
  return bits < 0x7F800000 ? std::bit_cast<float>(bits) : kInfinity;
}

bool is_fast(const Row& row, double p) {
  return !row.is_complex && (p == 0 || p == 1 || p == 2 || p == kInfinity);
}

Sums measure_fast(const Row& row, const char* data, std::int64_t elements, double p) {
  const Sum sum = p == 2 ? Sum::kSquares : p == 1 ? Sum::kMagnitudes : Sum::kNone;
  const auto kind = static_cast<int>(row.kind);
  const SumKernel kernel = chunk_kernels().sum[kind][static_cast<int>(sum)];
  LaneSums lanes;
  kernel(data, elements / kLanes, lanes);
  if (const std::int64_t rest = elements % kLanes; rest > 0) {
    alignas(32) char padded[kLanes * sizeof(double)] = {};  // a zero changes no sum
    const char* const begin = data + (elements - rest) * row.element_bytes();
    std::memcpy(padded, begin, static_cast<std::size_t>(rest * row.element_bytes()));
    kernel(padded, 1, lanes);
  }
  Sums sums = {.power_sum = sum_of_lanes(lanes), .max_abs = largest_of(lanes, row.kind)};
  if (sums.max_abs == kInfinity) {
    const double power_sum = sums.power_sum;
    sums = measure_each(row, data, elements, /*p=*/0);
    sums.power_sum = power_sum;
  }
  return sums;
}

}  // namespace

Measure::Measure(const Table& table, double p)
    : table_(table), p_(p), rows_(table.rows().size(), neutral(p)) {
  const std::vector<Chunk> chunks = table.chunks();
  std::vector<Sums> parts(chunks.size());
  ops::for_ranges(static_cast<std::int64_t>(chunks.size()), table.elements(),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (auto i = static_cast<std::size_t>(begin);
                         i < static_cast<std::size_t>(end); ++i) {
                      const Row& row = table.rows()[chunks[i].row];
                      const auto* data = static_cast<const char*>(row.data);
                      data += chunks[i].begin * row.element_bytes();
                      parts[i] = is_fast(row, p) ? measure_fast(row, data, chunks[i].elements, p)
                                                 : measure_each(row, data, chunks[i].elements, p);
                    }
                  });
  for (std::size_t i = 0; i < chunks.size(); ++i) merge(parts[i], p, rows_[chunks[i].row]);
}

double Measure::norm(std::size_t row) const {
  if (table_.rows()[row].elements == 0) return 0;
  return p_ == 0 ? 1 : clip::norm_of(rows_[row], p_);
}

void Measure::add(std::size_t row, bool leaves_out_bad, Group& group) const {
  if (table_.rows()[row].elements == 0 || (leaves_out_bad && rows_[row].is_bad())) return;
  merge(rows_[row], p_, group.sums);
  ++group.count;
}

double Measure::norm_of(const Group& group) const {
  if (group.count == 0) return 0;
  return p_ == 0 ? static_cast<double>(group.count) : clip::norm_of(group.sums, p_);
}

double Measure::total(bool leaves_out_bad) const {
  Group all = {neutral(p_)};
  for (std::size_t i = 0; i < rows_.size(); ++i) add(i, leaves_out_bad, all);
  return norm_of(all);
}

bool Measure::has_any(bool leaves_out_bad) const {
  Group all;
  for (std::size_t i = 0; i < rows_.size(); ++i) add(i, leaves_out_bad, all);
  return all.count > 0;
}

std::vector<double> Measure::module_norms(const std::vector<std::int32_t>& module_of,
                                          bool leaves_out_bad) const {
  const auto count = module_of.empty() ? 0 : 1 + std::ranges::max(module_of);
  std::vector<Group> groups(static_cast<std::size_t>(count), Group{neutral(p_)});
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    add(i, leaves_out_bad, groups[static_cast<std::size_t>(module_of[i])]);
  }
  std::vector<double> norms;
  for (const Group& group : groups) norms.push_back(norm_of(group));
  return norms;
}

std::int64_t Measure::first_bad() const {
  const auto bad = std::ranges::find_if(rows_, &Sums::is_bad);
  return bad == rows_.end() ? -1 : bad - rows_.begin();
}

}  // namespace ddpscope::clip
