#pragma once

#include <map>
#include <set>
#include <string>

#include "checks/run_state.h"

namespace ddpscope {

/// Parameters that an update of one model from another wrote onto themselves: by a copy, by
/// `lerp_`, or as in `target.mul_(0.99).add_(online, 0.01)`. A sum of a parameter and itself alone
/// may be a decay.
class SelfWrites {
 public:
  void on(const OpEvent& event, const RunState& state);
  const std::set<TensorId>& parameters() const { return written_; }
  /// The same of one parameter from another one, which has a gradient and lies in the same memory,
  /// as after `set_data()`: by the one that was written.
  const std::map<TensorId, TensorId>& in_shared_memory() const { return in_shared_memory_; }
  /// The last operator of them, as the program names it.
  const std::string& by() const { return by_; }
  void clear();

 private:
  void see_memory(const OpEvent& event, const RunState& state);

  std::set<TensorId> scaled_;
  std::set<TensorId> written_;
  std::map<TensorId, TensorId> in_shared_memory_;
  std::string by_;
};

}  // namespace ddpscope
