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

}  // namespace ddpscope
