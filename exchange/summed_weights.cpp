#include "exchange/summed_weights.h"

#include <algorithm>
#include <cmath>

#include "exchange/tensor_compare.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxSummedRanks = 16;
constexpr std::size_t kMostSums = 8;
constexpr double kOneStep = 0.1;  // of training, that lies between
constexpr double kNearer = 2;     // times

/// Squares over the projections of all tensors: of what the ranks had after it, less the sum or the
/// mean of what they had before, and of that sum.
struct Distance {
  double to_sum = 0;
  double to_mean = 0;
  double of_sum = 0;
  bool is_sum() const { return of_sum > 0 && to_sum < kOneStep * kOneStep * of_sum; }
  /// The step between may be a large one, as where such weights grow.
  bool may_be_sum() const { return is_sum() || kNearer * kNearer * to_sum < to_mean; }
};

Distance distance_to_sum(const RingList& rings, std::int64_t step) {
  std::vector<SketchesAt> before;
  for (const RingReader* ring : rings) before.push_back(sketches_at(*ring, step - 1));
  const auto ranks = static_cast<double>(rings.size());
  Distance distance;
  for (const auto& [place, after] : sketches_at(*rings.front(), step)) {
    const auto has_it = [&](const SketchesAt& one) { return one.contains(place); };
    if (!std::ranges::all_of(before, has_it)) continue;
    for (std::size_t i = 0; i < after.sums.size(); ++i) {
      double sum = 0;
      for (const SketchesAt& one : before) sum += one.at(place).sums[i];
      const double mean = sum / ranks;
      distance.to_sum += (after.sums[i] - sum) * (after.sums[i] - sum);
      distance.to_mean += (after.sums[i] - mean) * (after.sums[i] - mean);
      distance.of_sum += sum * sum;
    }
  }
  return distance;
}
}  // namespace

SketchesAt sketches_at(const RingReader& ring, std::int64_t step) {
  SketchesAt sketches;
  const std::vector<Blob>& blobs = ring.blobs();
  for (const auto& [model, list] : lists_at(blobs, step)) {
    const Blob* told = latest_blob(blobs, BlobKind::kSketches, model, step);
    if (told == nullptr || told->step != step) continue;
    const auto order = in_told_order(list, /*with_buffers=*/false);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const GradientSketch sketch = decode_sketch(told->bytes, i);
      const bool is_known = std::isfinite(sketch.squares) && sketch.squares >= 0;
      if (order[i]->requires_grad && is_known) sketches[{model, i}] = sketch;
    }
  }
  return sketches;
}

std::vector<std::int64_t> steps_of_sums(const RingList& rings, const Cohort& cohort) {
  if (rings.size() < 2 || rings.size() > kMaxSummedRanks) return {};
  std::vector<std::int64_t> steps;
  std::size_t clear = 0;
  for (const std::int64_t step : cohort.equal_steps) {
    if (steps.size() >= kMostSums) break;
    if (std::ranges::count(cohort.unequal_steps, step - 1) == 0) continue;
    const Distance distance = distance_to_sum(rings, step);
    if (distance.of_sum == 0) continue;
    if (!distance.may_be_sum()) return {};
    clear += distance.is_sum();
    steps.push_back(step);
  }
  return 2 * clear > steps.size() ? steps : std::vector<std::int64_t>();
}

}  // namespace ddpscope
