#pragma once

#include <set>
#include <vector>

#include "checks/run_state.h"
#include "model/finding.h"

namespace ddpscope {

/// Whether the operator reads something that a known model registers.
bool reads_registered(const OpTrace::Record& record, const RunState& state);

/// Leaves that registered layers read as their input, and nothing else does, or behind detach():
/// data, or learnt like a parameter. As the last surveyed step has it that reads them.
class FedLeaves {
 public:
  /// A backward ended.
  void see(const RunState& state);
  bool contains(const TensorState& tensor) const { return fed_.contains(tensor.info.id); }

 private:
  std::set<TensorId> fed_;
};

std::vector<Fix> fixes_of_fed();
/// Backward reaches it, and no operator of the step read it: what was made of it before is kept.
bool lies_behind_history(const TensorState& tensor, const RunState& state);

}  // namespace ddpscope
