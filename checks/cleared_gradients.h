#pragma once

#include <map>
#include <unordered_map>
#include <vector>

#include "checks/run_state.h"

namespace ddpscope {

/// Optimizers that step without a gradient, though backward had left some: cleared in between.
class ClearedGradients {
 public:
  /// So many steps of an optimizer in a row say that no loss of its own reaches a member.
  static constexpr std::int64_t kForeignSteps = 20;

  struct Cleared {
    std::vector<const TensorState*> all;  ///< members that lost theirs, in four cycles in a row
    /// Those that had one of the losses of others alone, beside members that step with theirs.
    std::vector<const TensorState*> foreign;
  };
  Cleared on(const OptimizerStepEvent& event, const RunState& state);
  void clear() {
    cycles_.clear();
    foreign_.clear();
  }

 private:
  struct Foreign {
    std::int64_t step = 0;       ///< of its optimizer, the last without
    std::int64_t gradients = 0;  ///< then
    std::int64_t times = 0;      ///< in a row
  };
  std::vector<const TensorState*> foreign_at(const OptimizerState& optimizer,
                                             const RunState& state);

  std::map<OptimizerId, std::int64_t> cycles_;
  std::unordered_map<TensorId, Foreign> foreign_;
};

}  // namespace ddpscope
