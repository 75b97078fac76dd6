#include "checks/half_series.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "model/statistics.h"

namespace ddpscope {
namespace {
constexpr double kNear = HalfSeries::kMax / 2;
constexpr double kMaxStepsAhead = 500;
constexpr double kHalfFit = 0.8;
constexpr double kLargeAlready = 1024;  // 6 doublings before the end
constexpr double kLeastOfGrowth = 0.5;  // in each half of the steps
constexpr double kMaxZeroRatio = 0.5;
constexpr double kHalfTiny = 6e-5;  // below the smallest normal number of float16
}  // namespace

bool HalfSeries::add(std::int64_t step, double absmax) {
  if (step == growing_.step) {
    growing_.absmax = std::max(growing_.absmax, absmax);
    return false;
  }
  const Sample complete = std::exchange(growing_, {.step = step, .absmax = absmax});
  // The lowest value stands for a mask, and zeros have no logarithm.
  if (complete.absmax <= 0 || complete.absmax >= kMax) return false;
  samples_.push_back(complete);
  if (samples_.size() > kSamples) samples_.pop_front();
  return true;
}

std::int64_t HalfSeries::steps_near_max() const {
  const auto is_near = [](const Sample& sample) { return sample.absmax >= kNear; };
  const auto first = std::ranges::find_if(samples_, is_near);
  if (first == samples_.end()) return 0;
  const bool is_constant = std::all_of(first, samples_.end(), [&](const Sample& sample) {
    return !is_near(sample) || sample.absmax == first->absmax;
  });
  return is_constant ? 0 : std::ranges::count_if(samples_, is_near);
}

/// A line through the logarithms of some steps.
struct HalfSeries::Line {
  double mean_x = 0;
  double mean_y = 0;
  double slope = 0;  ///< doublings per step
  double fit = 0;    ///< r²
};

HalfSeries::Line HalfSeries::line(std::size_t begin, std::size_t end) const {
  const auto n = static_cast<double>(end - begin);
  Line line;
  for (std::size_t i = begin; i < end; ++i) {
    line.mean_x += static_cast<double>(samples_[i].step) / n;
    line.mean_y += std::log2(samples_[i].absmax) / n;
  }
  double xx = 0;
  double xy = 0;
  double yy = 0;
  for (std::size_t i = begin; i < end; ++i) {
    const double x = static_cast<double>(samples_[i].step) - line.mean_x;
    const double y = std::log2(samples_[i].absmax) - line.mean_y;
    xx += x * x;
    xy += x * y;
    yy += y * y;
  }
  line.slope = xy / xx;
  if (yy > 0) line.fit = xy * xy / (xx * yy);
  return line;
}

std::optional<HalfSeries::Forecast> HalfSeries::forecast() const {
  // Outputs of a model that begins to learn grow, too: few doublings must be left.
  if (samples_.size() < kSamples || absmax() < kLargeAlready) return std::nullopt;
  const Line all = line(0, kSamples);
  if (all.slope <= 0 || all.fit < kHalfFit) return std::nullopt;
  const double older = line(0, kSamples / 2).slope;
  const double newer = line(kSamples / 2, kSamples).slope;
  if (std::min(older, newer) < kLeastOfGrowth * all.slope) return std::nullopt;
  const double crossing = all.mean_x + (std::log2(kMax) - all.mean_y) / all.slope;
  const double ahead = crossing - static_cast<double>(step());
  if (ahead > kMaxStepsAhead) return std::nullopt;
  return Forecast{.step = step() + std::max<std::int64_t>(std::llround(ahead), 1),
                  .doubling_steps = 1 / all.slope,
                  .growth = std::exp2(all.slope)};
}

void HalfGradients::add(double zero_ratio, double absmax) {
  samples_.push_back({.zero_ratio = zero_ratio, .absmax = absmax});
  if (samples_.size() > kSamples) samples_.pop_front();
}

bool HalfGradients::are_flushed() const {
  return samples_.size() == kSamples && zero_ratio() > kMaxZeroRatio && absmax() < kHalfTiny &&
         std::ranges::any_of(samples_, [](const Sample& sample) { return sample.absmax > 0; });
}

bool HalfGradients::are_all_zero() const {
  return samples_.size() >= kFewSamples &&
         std::ranges::all_of(samples_, [](const Sample& sample) { return sample.absmax == 0; });
}

bool HalfGradients::are_tiny() const {
  return samples_.size() >= kFewSamples && absmax() > 0 && absmax() < kHalfTiny && zero_ratio() > 0;
}

double HalfGradients::median(double Sample::*member) const {
  std::vector<double> values;
  for (const Sample& sample : samples_) values.push_back(sample.*member);
  return ddpscope::median(std::move(values));
}

void HalfLosses::begin_backward(double root_gradient) {
  ++backwards_;
  if (!waiting_.has_value()) return;
  const double loss = std::abs(*waiting_ * root_gradient);
  waiting_.reset();
  // Compared so that NaN is the largest.
  if (!(loss <= largest_)) largest_ = loss;
  if (loss > 0) ++losses_;
}

bool HalfLosses::are_tiny() const {
  const bool are_read = losses_ + 1 >= backwards_;
  return are_read && losses_ >= std::int64_t{HalfGradients::kFewSamples} && largest_ < kHalfTiny;
}

}  // namespace ddpscope
