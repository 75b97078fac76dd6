#pragma once

#include <unordered_set>

#include "checks/run_state.h"
#include "model/backward_event.h"
#include "model/op_event.h"

namespace ddpscope {

/// Whether the root of a backward was divided by one number that may be a count of all ranks, or
/// multiplied by its reciprocal, before what does no more than sum and reshape it.
class DividedLoss {
 public:
  /// `own_rows`: of the batch of this rank, which is no count of all.
  void on_op(const OpEvent& event, double own_rows, const RunState& state);
  void on_backward(const BackwardEvent& event);
  /// Of the last surveyed backward.
  bool is_divided() const { return is_divided_; }

 private:
  bool keeps(const OpEvent& event, const RunState& state) const;

  std::unordered_set<TensorId> divided_;  ///< of this step
  bool is_divided_ = false;
};

}  // namespace ddpscope
