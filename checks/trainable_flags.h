#pragma once

#include <map>
#include <set>
#include <vector>

#include "checks/run_state.h"

namespace ddpscope {

/// Parameters whose `requires_grad` is no longer what it was in the first cycle, or when they were
/// registered, and has stayed so for two cycles.
struct ChangedFlags {
  bool trainable = false;  ///< now
  std::int64_t step = 0;
  std::int64_t cycle = 0;
  std::vector<const TensorState*> tensors;
};

/// Follows `requires_grad` of registered parameters. What turns within each cycle, as the critic of
/// a GAN, never stays; a change that an optimizer or an attach follows was meant.
class TrainableFlags {
 public:
  void on(const TreeEvent& event);
  void on(const OptimizerMembersEvent& event);
  void on(const OptimizerStepEvent& event);
  /// What has stayed by the end of this cycle; told once.
  std::vector<ChangedFlags> on(const CycleEndEvent& event, const RunState& state);
  void forget_windows();

 private:
  struct Flag {
    bool first = true;
    bool now = true;
    std::int64_t known_cycle = 0;  ///< in which `first` was taken; 0: not yet
    std::int64_t step = 0;         ///< of the last change
    std::int64_t cycle = 0;
    std::int64_t turns = 0;   ///< in this cycle
    std::int64_t stayed = 0;  ///< whole cycles
  };

  void see(TensorId tensor, bool trainable, const Stamp& at);

  std::map<TensorId, Flag> flags_;
  std::map<OptimizerId, std::set<TensorId>> members_;
  Stamp last_step_;  ///< that ended
  std::int64_t renewed_cycle_ = 0;
};

}  // namespace ddpscope
