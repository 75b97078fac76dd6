#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "model/statistics.h"

namespace ddpscope {

/// The lowest reading of each of the last windows, as long as each lies above the one before.
class RisingWindows {
 public:
  /// Of so many, after a first one, which holds what is allocated once.
  static constexpr std::size_t kCount = 6;

  /// The reading of a watched cycle. True where it completes a window.
  bool add(double reading, std::int64_t step);
  /// The windows before what begins now say nothing about it.
  void begin_row() { windows_.clear(); }
  void begin_anew();
  /// `kCount` windows lie above a first one.
  bool are_full() const { return windows_.size() > kCount; }
  /// Of the full windows; its slope is per step.
  Trend trend() const;
  /// The last one still rises by at least half of that slope: memory that levels off does not.
  bool go_on() const;

 private:
  struct Window {
    double lowest = 0;
    std::int64_t step = 0;  ///< of that reading
  };
  bool is_complete(std::int64_t step) const;

  std::deque<Window> windows_;
  Window now_;
  std::int64_t cycles_ = 0;
  std::int64_t begin_ = 0;  ///< step
};

}  // namespace ddpscope
