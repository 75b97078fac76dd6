#include "exchange/reduction_fit.h"

#include <algorithm>
#include <cmath>

namespace ddpscope {
namespace {
constexpr double kCancelled = 1e-3;
}

double dot(const Sums& a, const Sums& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void add(Sums& to, const Sums& values, double factor) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += factor * values[i];
}

void Arrived::add_rank(const GradientSketch& sketch) {
  add(sums, sketch.sums);
  norms += std::sqrt(sketch.squares);
}

std::optional<ReductionFit> fit(const Arrived& arrived, const Sums& after, std::size_t ranks) {
  const double squares = dot(arrived.sums, arrived.sums);
  if (squares < kNoNorm * kNoNorm) return std::nullopt;
  const auto count = static_cast<double>(ranks);
  const double factor = dot(after, arrived.sums) / count / squares;
  Sums left = {};
  add(left, after, 1 / count);
  add(left, arrived.sums, -factor);
  const double residual = std::sqrt(dot(left, left));
  // A sketch has twice the norm of what it is of. What is nearly nothing beside what the ranks
  // brought is rounding.
  return ReductionFit{.ratio = factor * count,
                      .residual = residual,
                      .noise = residual / (std::max(std::abs(factor), kNoNorm) * 2 * arrived.norms),
                      .cancels = std::sqrt(squares) <= kCancelled * arrived.norms};
}

}  // namespace ddpscope
