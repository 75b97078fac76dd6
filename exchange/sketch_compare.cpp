#include "exchange/sketch_compare.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "exchange/reduction_record.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxSketchedRanks = 16;
constexpr std::string_view kMean = "running_mean";
constexpr std::string_view kVariance = "running_var";

/// One tensor on all ranks that left a sketch of it.
struct Sketched {
  double elements = 1;
  std::vector<GradientSketch> ranks;
};
using SketchedByPath = std::map<std::string, Sketched>;

bool is_sketched(const GradientSketch& sketch) {
  const auto is_finite = [](double sum) { return std::isfinite(sum); };
  return std::isfinite(sketch.squares) && sketch.squares >= 0 &&
         std::ranges::all_of(sketch.sums, is_finite);
}

void add_sketches_of(const RingReader& ring, std::int64_t step, const ValuesDiffer& values,
                     SketchedByPath& all) {
  const std::vector<Blob>& blobs = ring.blobs();
  const bool of_trained = !values.tensors.empty() && values.tensors.front().requires_grad;
  for (const auto& [model, list] : lists_at(blobs, step)) {
    const Blob* told = latest_blob(blobs, BlobKind::kSketches, model, step);
    if (told == nullptr || told->step != step) continue;
    const auto order = in_told_order(list, /*with_buffers=*/true);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const GradientSketch sketch = decode_sketch(told->bytes, i);
      if (order[i]->is_buffer != values.of_buffers) continue;
      if ((of_trained && !order[i]->requires_grad) || !is_sketched(sketch)) continue;
      Sketched& one = all[order[i]->path];
      one.elements = std::max(static_cast<double>(elements_of(*order[i])), 1.0);
      one.ranks.push_back(sketch);
    }
  }
}

/// The sums are random projections: the mean of their squares is that of the norm.
double distance(const GradientSketch& a, const GradientSketch& b) {
  double squares = 0;
  for (std::size_t i = 0; i < a.sums.size(); ++i) {
    squares += (a.sums[i] - b.sums[i]) * (a.sums[i] - b.sums[i]);
  }
  return std::sqrt(squares / static_cast<double>(a.sums.size()));
}

double largest_distance(const Sketched& tensor) {
  double largest = 0;
  for (std::size_t i = 0; i < tensor.ranks.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      largest = std::max(largest, distance(tensor.ranks[i], tensor.ranks[k]));
    }
  }
  return largest;
}

double largest_norm(const Sketched& tensor) {
  return std::sqrt(std::ranges::max(tensor.ranks, {}, &GradientSketch::squares).squares);
}

/// What a difference of this tensor is measured by; 0 where nothing is. The sum of n variances is
/// at most sqrt(n) times their norm.
double scale_of(const std::string& path, const Sketched& tensor, const SketchedByPath& all) {
  if (path.ends_with(kVariance)) return 0;
  if (!path.ends_with(kMean)) return largest_norm(tensor);
  const std::string variance = path.substr(0, path.size() - kMean.size()) + std::string(kVariance);
  const auto found = all.find(variance);
  if (found == all.end()) return 0;
  return std::sqrt(std::sqrt(tensor.elements) * largest_norm(found->second));
}
}  // namespace

void estimate_difference(const RingList& rings, const DigestsDiffer& difference,
                         ValuesDiffer& values) {
  const bool is_running = values.of_buffers && values.step > 0;
  const std::int64_t step = is_running ? difference.last_step : values.step;
  SketchedByPath all;
  for (std::size_t i = 0; i < std::min(rings.size(), kMaxSketchedRanks); ++i) {
    add_sketches_of(*rings[i], step, values, all);
  }
  EstimatedDifference largest{.step = step};
  for (const auto& [path, tensor] : all) {
    const double norm = largest_distance(tensor);
    const double scale = scale_of(path, tensor, all);
    if (scale <= 0 || norm / scale <= largest.relative) continue;
    largest = {.step = step, .path = path, .norm = norm, .relative = norm / scale};
  }
  if (largest.relative > 0) values.estimate.push_back(largest);
}

}  // namespace ddpscope
