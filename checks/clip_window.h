#pragma once

#include <optional>
#include <vector>

#include "checks/clip_finder.h"
#include "model/statistics.h"

namespace ddpscope {

/// The clips of one group of gradients over the steps of its optimizer, at most 200 of them.
class ClipWindow {
 public:
  static constexpr std::int64_t kSteps = 200;

  void clip(const Clip& clip) { clip_ = clip; }
  /// A step ends. A program that clips only above the limit leaves other steps alone.
  void add_step(bool is_counted);
  void clear();

  double limit() const { return limit_; }
  std::int64_t idle_steps() const { return idle_steps_; }  ///< in a row, up to now
  std::int64_t steps() const { return std::ssize(factors_); }
  double active_ratio() const;
  double factor_median() const { return quantile(factors_, 0.5); }
  const std::vector<double>& norms() const { return norms_; }  ///< of the steps that clipped

 private:
  std::optional<Clip> clip_;  ///< since the last step
  double limit_ = 0;
  std::int64_t idle_steps_ = 0;
  std::vector<double> factors_;
  std::vector<double> norms_;
};

}  // namespace ddpscope
