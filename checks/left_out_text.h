#pragma once

#include <compare>
#include <string>
#include <vector>

#include "checks/lapsed_owners.h"
#include "checks/subtree.h"
#include "model/finding.h"

namespace ddpscope {

/// What is known of parameters that no optimizer of this rank trains.
struct LeftOut {
  bool built_before = false;  ///< the optimizer, before they were registered
  std::string written_by;     ///< an operator of the program's own
  std::string sent_in = {};   ///< by other ranks, which step them
  bool is_sent_from_here = false;
  bool beside_sent = false;  ///< others are sent here
  bool is_fixed = false;     ///< in eval mode, as is all beside it that no optimizer holds
  bool is_behind = false;    ///< an optimizer trains the input of its model, and nothing of it
  Lapse lapse = Lapse::kNone;
  OptimizerId owner = 0;  ///< of those that lapsed, and that which steps
  OptimizerId other = 0;
  auto operator<=>(const LeftOut&) const = default;
};

/// The texts of optim-missing-parameter.
std::string cause_of_left_out(const LeftOut& kind);
Severity severity_of_left_out(const LeftOut& kind);
std::string what_is_left_out(const TensorGroup& group, const LeftOut& kind);
std::string why_left_out(const TensorGroup& group, const LeftOut& kind, const RunState& state);
std::vector<Fix> fixes_for_left_out(const LeftOut& kind, const RunState& state);

}  // namespace ddpscope
