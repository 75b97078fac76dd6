#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "checks/run_state.h"

namespace ddpscope {

/// The parameters whose gradients are summed over ranks, as the calls tell them.
class AveragedGradients {
 public:
  void on(const CollectiveEvent& event);

  bool any() const { return !last_cycles_.empty(); }
  std::int64_t count() const { return static_cast<std::int64_t>(last_cycles_.size()); }
  std::int64_t first_step() const { return first_step_; }
  /// Whether its gradient was averaged in a cycle after that one.
  bool covered_after(std::int64_t cycle, TensorId parameter) const;
  /// Whether no call after that cycle can have held it: what the calls held is known, or was
  /// smaller.
  bool missed_after(std::int64_t cycle, const TensorState& parameter) const;

 private:
  std::map<TensorId, std::int64_t> last_cycles_;
  std::map<std::int64_t, std::int64_t> unknown_elements_;  ///< by cycle; of the last ones
  std::int64_t first_step_ = 0;
};

}  // namespace ddpscope
