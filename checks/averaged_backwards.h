#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "checks/run_state.h"

namespace ddpscope {

/// After which backwards gradients were averaged over ranks, and of which optimizer.
class AveragedBackwards {
 public:
  using Pattern = std::vector<bool>;  ///< of the backwards of a step: gradients were averaged in it
                                      ///< or after it, before the next one

  void on(const CollectiveEvent& event, std::int64_t backward);
  /// Of the backwards, in their order, that brought gradients to `optimizer`. Calls that name no
  /// gradient count for each optimizer, unless they have the size of another one.
  Pattern pattern_of(const std::set<std::int64_t>& backwards, const OptimizerState& optimizer,
                     const RunState& state) const;
  void clear() { calls_.clear(); }

 private:
  struct Calls {
    std::set<TensorId> gradients_of;
    std::int64_t unnamed_elements = 0;
  };

  static bool are_of(const Calls& calls, const OptimizerState& optimizer, const RunState& state);

  std::map<std::int64_t, Calls> calls_;  ///< by number of the backward; of the last ones
};

}  // namespace ddpscope
