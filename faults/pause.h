#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace ddpscope {

/// Makes a thread late.
class Pause {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Pause(Clock::duration least) : least_(least) {}

  /// Waits for as long as it took from the last time to here: so long at least, a second at most.
  void as_long_again() {
    const Clock::duration took = Clock::now() - begin_;
    std::this_thread::sleep_for(std::clamp<Clock::duration>(took, least_, std::chrono::seconds(1)));
    begin_ = Clock::now();
  }

 private:
  Clock::duration least_;
  Clock::time_point begin_ = Clock::now();
};

}  // namespace ddpscope
