#pragma once

#include <string>
#include <vector>

#include "checks/run_state.h"
#include "model/finding.h"

namespace ddpscope {

/// A registered tensor, and the one that the optimizer holds or that forward uses in its place.
struct Replacement {
  const TensorState* tensor = nullptr;
  const TensorState* other = nullptr;
};

/// The findings of module-replaced about tensors that share a cause.
void say_replaced(const std::string& cause, const std::string& holder,
                  const std::vector<Replacement>& replaced, const RunState& state,
                  Findings& findings);

}  // namespace ddpscope
