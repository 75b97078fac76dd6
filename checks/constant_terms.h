#pragma once

#include <map>

#include "checks/check.h"
#include "checks/run_state.h"

namespace ddpscope {

/// Terms of a loss that were made of what autograd::grad() returned without a graph, as a gradient
/// penalty that trains nothing. Told in the second survey step that has one.
class ConstantTerms {
 public:
  /// A backward began.
  void on(const BackwardEvent& event, const RunState& state, Findings& findings);
  void clear() { seen_.clear(); }

 private:
  struct Seen {
    std::int64_t first_step = 0;
    bool told = false;
  };
  std::map<std::string, Seen> seen_;  ///< by the module that ran the addition
};

}  // namespace ddpscope
