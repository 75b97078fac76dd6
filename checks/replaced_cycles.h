#pragma once

#include <cstdint>
#include <unordered_map>
#include <unordered_set>

#include "checks/run_state.h"

namespace ddpscope {

/// Whether a backward of this cycle had the tensor among its leaves.
bool is_reached(const TensorState& tensor, std::int64_t cycle);

/// Counts the cycles in which another tensor was used in place of a registered one.
class ReplacedCycles {
 public:
  void stepped(OptimizerId optimizer) { stepped_.insert(optimizer); }
  /// `used`: in its place, in this cycle; null if nothing was. True in the third of such cycles.
  bool see(const TensorState& tensor, const TensorState* used, std::int64_t cycle,
           const RunState& state);
  void end_cycle() { stepped_.clear(); }
  void clear() { cycles_.clear(); }

 private:
  struct Cycles {
    std::int64_t count = 0;
    TensorId used = 0;  ///< in the last of them
  };
  bool is_stepped(const TensorState& tensor) const;

  std::unordered_map<TensorId, Cycles> cycles_;
  std::unordered_set<OptimizerId> stepped_;  ///< in this cycle
};

}  // namespace ddpscope
