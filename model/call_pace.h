#pragma once

#include <algorithm>
#include <cstdint>

#include "model/hot_code.h"

namespace ddpscope {

/// Tells when ranks that called each other in every cycle, or every few, no longer do.
/// Not thread-safe: the owner serialises calls.
class CallPace {
 public:
  /// `calls` of the cycle that ended. True once after they stopped: after more than twice as many
  /// cycles as they have been left out before, as between averages of weights.
  DDPSCOPE_HOT bool stops(std::int64_t calls) {
    if (calls > 0) {
      if (called_) longest_ = std::max(longest_, silent_);
      called_ = true;
      silent_ = 0;
      return false;
    }
    return called_ && ++silent_ == 2 * longest_ + kSilentCycles;
  }

 private:
  static constexpr std::int64_t kSilentCycles = 3;

  bool called_ = false;
  std::int64_t silent_ = 0;   // cycles without a call
  std::int64_t longest_ = 0;  // the most of them between two with calls
};

}  // namespace ddpscope
