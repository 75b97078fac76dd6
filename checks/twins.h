#pragma once

#include <vector>

#include "checks/run_state.h"

namespace ddpscope {

/// Registered parameters that no optimizer holds, each given out once.
class Twins {
 public:
  explicit Twins(const RunState& state);
  /// One of the shape and type of `stale`, the first by path; null if there is none.
  const TensorState* take(const TensorState& stale);

 private:
  std::vector<const TensorState*> free_;
};

/// Whether it is one of several unregistered members of a shape, of which each step trains others,
/// as the codes of samples.
bool takes_turns(const TensorState& tensor, const OptimizerState& optimizer, const RunState& state);

}  // namespace ddpscope
