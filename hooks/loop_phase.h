#pragma once

#include "hooks/hook_state.h"

namespace ddpscope {

/// What the training loop does now: `forward` from the end of a step, `backward` inside one,
/// `reduce` from its end to the optimizer's step or to the next forward that is seen.
class LoopPhase {
 public:
  static Phase now() noexcept { return hook_state.phase.load(std::memory_order_relaxed); }
  static void enter(Phase phase) noexcept {
    hook_state.phase.store(phase, std::memory_order_relaxed);
  }
  static void see_forward() noexcept {
    if (now() == Phase::kInit || now() == Phase::kReduce) enter(Phase::kForward);
  }
};

}  // namespace ddpscope
