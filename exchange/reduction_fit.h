#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "model/reduction_event.h"

namespace ddpscope {

/// Random projections of a vector; those of a sum are their sums.
using Sums = std::array<double, 4>;
double dot(const Sums& a, const Sums& b);
void add(Sums& to, const Sums& values, double factor = 1);

/// A gradient with a smaller norm tells nothing.
inline constexpr double kNoNorm = 1e-20;

/// What arrived at one parameter on all ranks.
struct Arrived {
  Sums sums = {};    ///< of the sum over ranks
  double norms = 0;  ///< sum over ranks

  void add_rank(const GradientSketch& sketch);
};

/// The multiple of what arrived that is nearest to what the optimizers were given.
struct ReductionFit {
  double ratio = 0;      ///< to the mean
  double residual = 0;   ///< norm of what is left, of the mean over ranks
  double noise = 0;      ///< that, beside what the ranks brought
  bool cancels = false;  ///< what the ranks brought, so that `ratio` is not exact
};

/// `after`: of the sum over `ranks` ranks. Nothing where nothing arrived.
std::optional<ReductionFit> fit(const Arrived& arrived, const Sums& after, std::size_t ranks);

}  // namespace ddpscope
