#pragma once

#include <algorithm>
#include <cstdint>

#include "checks/missing_cause.h"

namespace ddpscope {

/// In which cycles one parameter has a gradient. A branch that is taken now and then, as a layer
/// that is dropped at random or one of several experts, is not missed before it stayed away for
/// much longer than it does as a rule.
class GradientPresence {
 public:
  static constexpr std::int64_t kTimesUsual = 16;
  static constexpr std::int64_t kTimesForFirst = 64;

  void arrived(std::int64_t cycle, std::int64_t step) {
    if (with_ == 0 || gap_ > 0) began_ = cycle;
    last_step_ = step;
    ++with_;
    without_ += gap_;
    longest_ = std::max(longest_, gap_);
    gap_ = 0;
  }
  /// In another cycle.
  void stayed_away() { ++gap_; }
  bool is_missed() const { return gap_ >= limit(); }
  void forget_gap() {
    gap_ = 0;
    was_excused_ = true;
  }
  /// At some time it was not to get one by backward: it was frozen, or the program assigned it.
  bool was_excused() const { return was_excused_; }
  std::int64_t cycles_without() const { return gap_; }
  /// The cycle of the first of those in a row that have one; 0: none has.
  std::int64_t began() const { return gap_ == 0 ? began_ : 0; }
  /// Whether it may come back where another took its place when it went.
  bool may_come_back() const { return with_ > 0 && gap_ < kTimesUsual * with_; }
  bool never_came() const { return with_ == 0; }
  /// The step that ended the last cycle with one; 0: none had.
  std::int64_t last_step() const { return last_step_; }
  /// It had one in each cycle until the gap.
  bool was_always_there() const { return without_ == 0 && with_ >= kAlways; }
  /// In how many cycles it has one once, where it had it in some and in others not; else 0.
  std::int64_t usual_distance() const {
    return with_ == 0 || without_ + gap_ == 0 ? 0 : (with_ + without_ + gap_) / with_;
  }

 private:
  static constexpr std::int64_t kAlways = 8;  // cycles in a row
  static constexpr std::int64_t kPauses = 2;

  std::int64_t limit() const {
    if (with_ == 0 || was_always_there()) return kMissingCycles;
    return std::max(kTimesUsual * (with_ + without_) / with_, kPauses * longest_);
  }

  std::int64_t with_ = 0;     // cycles
  std::int64_t without_ = 0;  // before the last that had one
  std::int64_t longest_ = 0;  // of the pauses that ended
  std::int64_t began_ = 0;
  std::int64_t last_step_ = 0;
  std::int64_t gap_ = 0;  // since then
  bool was_excused_ = false;
};

}  // namespace ddpscope
