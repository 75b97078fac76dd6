#pragma once

#include <atomic>

#include "model/finding.h"

namespace ddpscope {

/// What the training loop does now: `forward` from the end of a step, `backward` inside one,
/// `reduce` from its end to the optimizer's step or to the next forward that is seen.
class LoopPhase {
 public:
  static Phase now() noexcept { return phase_.load(std::memory_order_relaxed); }
  static void enter(Phase phase) noexcept { phase_.store(phase, std::memory_order_relaxed); }
  static void see_forward() noexcept {
    if (now() == Phase::kInit || now() == Phase::kReduce) enter(Phase::kForward);
  }

 private:
  static inline constinit std::atomic<Phase> phase_{Phase::kInit};
};

}  // namespace ddpscope
