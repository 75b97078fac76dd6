#pragma once

#include <map>
#include <vector>

#include "checks/run_state.h"

namespace ddpscope {

/// Optimizers that step without a gradient, though backward had left some: cleared in between.
class ClearedGradients {
 public:
  /// The members that lost theirs, once that was so of all in four cycles in a row; else none.
  std::vector<const TensorState*> on(const OptimizerStepEvent& event, const RunState& state);
  void clear() { cycles_.clear(); }

 private:
  std::map<OptimizerId, std::int64_t> cycles_;
};

}  // namespace ddpscope
