#pragma once

#include <memory>
#include <string>

#include "checks/run_state.h"
#include "model/event.h"
#include "records/rank_file.h"

namespace ddpscope {

/// Which module and operator the events named last, for the note of a rank that dies.
class LastPlace {
 public:
  /// After the judge saw the event; takes an operator out of it.
  void saw(Event& event) noexcept;
  /// Before the judge sees it, which may be much later; copies the operator.
  void saw_early(const Event& event);
  /// Gives a changed place to crash_note.
  void publish(const RunState& state) noexcept;
  /// Fills model, module_path and op of a record about the step in which they were seen.
  void fill(ProgressRecord& record) const;

 private:
  ProgressRecord look_up(const RunState& state) const;

  std::unique_ptr<OpEvent> op_;
  std::unique_ptr<OperatorFailedEvent> failed_;  ///< later than `op_`
  bool changed_ = false;
  ProgressRecord place_;
};

}  // namespace ddpscope
