#pragma once

#include "checks/check.h"

namespace ddpscope {

/// A check of failures: what it has seen is a note once training goes on, and an error at the exit.
class FailureCheck : public Check {
 public:
  void on_optimizer_step(const OptimizerStepEvent& event, const RunState&,
                         Findings& findings) override {
    if (!event.threw) decide(Severity::kNote, findings);
  }
  void on_cycle_end(const CycleEndEvent&, const RunState&, Findings& findings) override {
    decide(Severity::kNote, findings);
  }
  void on_exit(const ExitEvent&, const RunState&, Findings& findings) override {
    decide(Severity::kError, findings);
  }

 private:
  /// Says what was seen, and forgets it.
  virtual void decide(Severity severity, Findings& findings) = 0;
};

}  // namespace ddpscope
