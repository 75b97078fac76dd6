#pragma once

#include <cstdint>

namespace ddpscope {

/// Whether a program was seen to leave out a step that is not finite and to go on. It gives up
/// where it leaves out several in a row.
class SkipHabit {
 public:
  void skip() { ++in_a_row_; }
  /// Made with what is finite.
  void step() {
    goes_on_ = goes_on_ || in_a_row_ > 0;
    in_a_row_ = 0;
  }
  void forget() { *this = {}; }
  bool may_go_on() const { return goes_on_ && in_a_row_ < kGivesUp; }

 private:
  static constexpr std::int64_t kGivesUp = 3;

  bool goes_on_ = false;
  std::int64_t in_a_row_ = 0;
};

}  // namespace ddpscope
