#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "model/tensor_info.h"

namespace ddpscope {

/// Counts steps, cycles and periods as checks.md section 1.1 defines them.
///
/// A step is a completed optimizer step; without an optimizer a finished backward; after an
/// explicit marker only markers count. A cycle is the smallest interval in which every optimizer
/// that stepped during the last 32 optimizer steps stepped at least once.
/// Not thread-safe: the owner serialises calls.
class StepClock {
 public:
  /// What one call changed.
  struct Change {
    bool step_ended = false;
    bool cycle_ended = false;
  };

  /// An optimizer exists: its steps will count, unless 64 backward calls pass without one.
  void optimizer_created() { optimizer_expected_ = true; }
  Change optimizer_stepped(OptimizerId optimizer);
  Change backward_ended();
  Change marked();

  /// The step and the cycle that are in progress, 1-based.
  std::int64_t step() const { return completed_steps_ + 1; }
  std::int64_t cycle() const { return completed_cycles_ + 1; }
  /// Backward calls between two steps of this optimizer, once three gaps in a row agreed.
  std::optional<std::int64_t> period(OptimizerId optimizer) const;

 private:
  struct Learned {
    std::int64_t backwards_at_step = 0;
    std::int64_t period = 0;
    int agreed = 0;
  };
  bool all_recent_stepped() const;
  Change end_step(bool cycle_ended);

  std::int64_t completed_steps_ = 0;
  std::int64_t completed_cycles_ = 0;
  std::int64_t backwards_ = 0;
  bool markers_rule_ = false;
  bool optimizer_expected_ = false;
  std::deque<OptimizerId> recent_;
  std::map<OptimizerId, std::int64_t> stepped_in_cycle_;
  std::map<OptimizerId, Learned> periods_;
};

}  // namespace ddpscope
