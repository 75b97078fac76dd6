#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/hot_code.h"
#include "model/tensor_info.h"

namespace ddpscope {

/// Counts steps and cycles.
///
/// A step is a completed optimizer step; without an optimizer a finished backward; after an
/// explicit marker only markers count. A cycle is the smallest interval in which every optimizer
/// that stepped during the last 32 optimizer steps, or more where there are more optimizers,
/// stepped at least once. Not thread-safe: the owner serialises calls.
class StepClock {
 public:
  StepClock();

  /// What one call changed.
  struct Change {
    bool step_ended = false;
    bool cycle_ended = false;
  };

  /// An optimizer exists: its steps will count, unless 64 backward calls pass without one.
  void optimizer_created() { optimizer_expected_ = some_created_ = true; }
  /// It clears gradients outside of its steps. Where it did so after 8 backwards and none stepped,
  /// the program updates by itself.
  void gradients_cleared();
  /// `first_member` names its first parameter, 0: none. One that was built since the last one's
  /// first step stands in the place of an earlier one with the same: it is built anew in each step.
  DDPSCOPE_HOT Change optimizer_stepped(OptimizerId optimizer, std::uintptr_t first_member = 0);
  DDPSCOPE_HOT Change backward_ended();
  Change marked();

  /// The step and the cycle that are in progress, 1-based.
  std::int64_t step() const { return completed_steps_ + 1; }
  std::int64_t cycle() const { return completed_cycles_ + 1; }

 private:
  struct Recent {
    OptimizerId optimizer = 0;
    std::uintptr_t first_member = 0;
    std::int64_t steps = 0;   ///< of the last ones
    bool in_cycle = false;    ///< stepped in the one in progress
    bool is_doubted = false;  ///< may belong to a loop that a newer optimizer has followed
  };
  DDPSCOPE_HOT void remember(OptimizerId optimizer);
  DDPSCOPE_HOT void forget_oldest();
  DDPSCOPE_HOT Recent& recent(OptimizerId optimizer);
  void follow_newest(OptimizerId optimizer, std::uintptr_t first_member);
  bool replace_remade(OptimizerId optimizer, std::uintptr_t first_member);
  DDPSCOPE_HOT Change end_step(bool cycle_ended);

  std::int64_t completed_steps_ = 0;
  std::int64_t completed_cycles_ = 0;
  std::int64_t backwards_ = 0;
  bool markers_rule_ = false;
  bool optimizer_expected_ = false;
  bool last_backward_ended_step_ = false;
  bool some_created_ = false;  ///< since the first step of the last new one
  OptimizerId newest_ =
      0;  ///< that made its first step when others had made some, until it steps again
  std::int64_t backwards_at_clear_ = 0;
  std::int64_t cleared_ = 0;       ///< times, of which a backward went before each
  std::vector<OptimizerId> last_;  ///< a ring of the last steps
  std::size_t next_ = 0;           ///< where the next one is written
  std::size_t kept_steps_ = 0;
  std::size_t optimizer_steps_ = 0;
  std::vector<Recent> recent_;
  std::size_t in_cycle_ = 0;  ///< of those
};

}  // namespace ddpscope
