#pragma once

#include <optional>
#include <vector>

#include "checks/clip_finder.h"
#include "model/statistics.h"

namespace ddpscope {

/// The clips of one group of gradients over the last 200 steps of its optimizer or, where hooks
/// rest in some of them, over as many as give 32 that were watched.
class ClipWindow {
 public:
  static constexpr std::int64_t kSteps = 200;
  static constexpr std::int64_t kWatched = 32;

  void clip(const Clip& clip) { clip_ = clip; }
  /// A step ends. A program that clips only above the limit leaves other steps alone.
  void add_step(bool is_counted, std::int64_t number);
  void clear();

  double limit() const { return limit_; }
  std::int64_t idle_steps() const { return idle_steps_; }  ///< in a row, up to now
  std::int64_t watched() const { return std::ssize(factors_); }
  /// From the first that was watched to the last.
  std::int64_t steps() const { return factors_.empty() ? 0 : last_ - first_ + 1; }
  bool covers(std::int64_t number) const { return watched() >= kWatched && steps() >= number; }
  double active_ratio() const;
  double factor_median() const { return quantile(factors_, 0.5); }
  const std::vector<double>& norms() const { return norms_; }  ///< of the steps that clipped

 private:
  std::optional<Clip> clip_;  ///< since the last step
  double limit_ = 0;
  std::int64_t idle_steps_ = 0;
  std::int64_t first_ = 0, last_ = 0;
  std::vector<double> factors_;
  std::vector<double> norms_;
};

}  // namespace ddpscope
