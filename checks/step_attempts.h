#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <iterator>
#include <optional>

#include "model/tensor_info.h"

namespace ddpscope {

/// The last 200 steps of an optimizer: those it made and those that were skipped.
struct StepAttempts {
  static constexpr std::int64_t kWindow = 200;

  /// The gradients since they were cleared.
  struct Attempt {
    std::int64_t backward = 0;     ///< the last that added to them
    TensorId first_parameter = 0;  ///< with a gradient that is not finite
    std::optional<double> scale;
  };
  Attempt attempt;
  TensorId early = 0;         ///< the same of the next attempt, told before its first gradient
  std::int64_t in_a_row = 0;  ///< skipped, up to now
  std::deque<bool> skipped;
  std::deque<Attempt> skips;  ///< the last of them

  void step() {
    in_a_row = 0;
    attempt = {};
    add(false);
  }
  void skip() {
    ++in_a_row;
    skips.push_back(attempt);
    if (std::ssize(skips) > kWindow) skips.pop_front();
    add(true);
  }
  bool is_full() const { return std::ssize(skipped) == kWindow; }
  std::int64_t skipped_count() const { return std::ranges::count(skipped, true); }
  double skipped_ratio() const {
    return static_cast<double>(skipped_count()) / static_cast<double>(skipped.size());
  }

 private:
  void add(bool was_skipped) {
    skipped.push_back(was_skipped);
    if (std::ssize(skipped) > kWindow) skipped.pop_front();
  }
};

}  // namespace ddpscope
