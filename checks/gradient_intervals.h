#pragma once

#include <map>
#include <unordered_map>
#include <vector>

#include "model/backward_event.h"

namespace ddpscope {

/// Counts what was added to each optimizer member's gradient between two steps of the optimizer,
/// and whether somebody cleared the gradient in between.
class GradientIntervals {
 public:
  /// What the step of an optimizer ends.
  struct Stale {
    std::vector<TensorId> parameters;
    std::int64_t accumulations = 0;  ///< the most since one was cleared
    std::int64_t steps = 0;          ///< likewise, of the optimizer
  };
  struct Closed {
    Stale never;               ///< not cleared in 3 cycles in a row
    Stale now_and_then;        ///< not before this step, but before another of these cycles
    bool all = false;          ///< no other member got a gradient
    std::int64_t longest = 0;  ///< the most since a cleared one was cleared
  };

  void add(OptimizerId owner, const GradientEvent& event);
  /// Its gradients are cleared, whatever the program writes there next.
  void clear(OptimizerId optimizer);
  Closed close(OptimizerId optimizer, std::int64_t cycle);
  /// The members, of any optimizer, that were cleared before their optimizer's last step.
  std::vector<TensorId> cleared() const;
  void forget(OptimizerId optimizer) { members_.erase(optimizer); }
  void clear() { members_.clear(); }

 private:
  struct Member {
    std::int64_t accumulations = 0;
    std::int64_t since_clear = 0;
    std::int64_t steps = 0;  ///< since then
    bool cleared = false;
    bool was_cleared = false;       ///< before the last step
    std::int64_t stale_cycles = 0;  ///< in a row
    std::int64_t stale_cycle = 0;   ///< the last one
    std::int64_t cycle = 0;         ///< of the last step
    std::int64_t clear_cycle = 0;   ///< of the last step that found it cleared; 0: none did
  };
  static void end(Member& member, std::int64_t cycle);

  std::map<OptimizerId, std::unordered_map<TensorId, Member>> members_;
};

}  // namespace ddpscope
