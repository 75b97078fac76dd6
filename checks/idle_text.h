#pragma once

#include "checks/subtree.h"
#include "model/finding.h"

namespace ddpscope {

/// What parameters that took no part in steps have in common.
struct IdleKind {
  bool by_zero = false;  ///< a multiplication by zero leads from them to the loss
  bool moved = false;
  bool frozen = false;
  double weight_decay = 0;
  double momentum = 0;
  auto operator<=>(const IdleKind&) const = default;
};

/// `ratio`: by which steps moved them at most.
Finding idle_finding(const TensorGroup& group, const IdleKind& kind, std::int64_t steps,
                     double ratio, const OptimizerState& optimizer);

}  // namespace ddpscope
