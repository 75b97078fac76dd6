#pragma once

#include <cstdint>
#include <deque>
#include <iterator>
#include <optional>

namespace ddpscope {

/// The largest element that a module returned in float16, step by step, and where that leads.
class HalfSeries {
 public:
  static constexpr double kMax = 65504;
  static constexpr std::size_t kSamples = 64;

  /// The largest of a step counts. True if a step before this one is complete now.
  bool add(std::int64_t step, double absmax);

  /// The steps that are looked back at, 64 at most.
  std::int64_t steps() const { return std::ssize(samples_); }
  /// How many of them came near the end of float16, masks and constants aside.
  std::int64_t steps_near_max() const;
  struct Forecast {
    std::int64_t step = 0;  ///< that reaches the end of float16
    double doubling_steps = 0;
    double growth = 0;  ///< factor per step
  };
  /// A steady growth of what is large already that reaches the end of float16 soon.
  std::optional<Forecast> forecast() const;
  /// Of the last complete step.
  double absmax() const { return samples_.back().absmax; }
  std::int64_t step() const { return samples_.back().step; }

 private:
  struct Sample {
    std::int64_t step = 0;
    double absmax = 0;
  };
  struct Line;
  Line line(std::size_t begin, std::size_t end) const;

  Sample growing_;  ///< of the step in progress
  std::deque<Sample> samples_;
};

/// The last gradients of one parameter in float16.
class HalfGradients {
 public:
  static constexpr std::size_t kSamples = 32;
  static constexpr std::size_t kFewSamples = 8;

  void add(double zero_ratio, double absmax);
  /// Whether float16 flushes most of them to zero. Where every element is zero in every step,
  /// nothing tells that from a parameter that nobody uses.
  bool are_flushed() const;
  /// So in a few steps, and in each of them: float16 flushes them, or nothing uses the parameter.
  bool are_all_zero() const;
  /// In a few steps some are zero, and the others near the end of float16: the gradients of what
  /// lies before them may be flushed as a whole.
  bool are_tiny() const;
  std::size_t samples() const { return samples_.size(); }
  /// Medians of the steps.
  double zero_ratio() const { return median(&Sample::zero_ratio); }
  double absmax() const { return median(&Sample::absmax); }

 private:
  struct Sample {
    double zero_ratio = 0;
    double absmax = 0;
  };
  double median(double Sample::*member) const;

  std::deque<Sample> samples_;
};

/// The losses of a run, times the gradients that they were given.
class HalfLosses {
 public:
  /// Before its backward begins, or one later, as of a device.
  void add(double loss) { waiting_ = loss; }
  void begin_backward(double root_gradient);
  /// All of several, from the first on: float16 may flush every gradient to zero. Of one that
  /// shrank training may be done, and 0 has no gradient.
  bool are_tiny() const;
  double largest() const { return largest_; }

 private:
  std::optional<double> waiting_;
  std::int64_t backwards_ = 0;
  std::int64_t losses_ = 0;  ///< that were read, and not 0
  double largest_ = 0;
};

}  // namespace ddpscope
