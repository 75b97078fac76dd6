#pragma once

#include <optional>
#include <string_view>
#include <utility>

#include "checks/remade_optimizers.h"
#include "checks/repeated_steps.h"
#include "checks/unstepped_optimizers.h"
#include "checks/zero_rates.h"

namespace ddpscope {

/// What a loop does with its optimizers as a whole: when it builds and steps them, at what rates.
class StepHabits {
 public:
  void on(const BackwardEvent& event) { unstepped_.on(event); }
  void on(const CollectiveEvent& event, const RunState& state) { unstepped_.on(event, state); }
  void step_is_spoilt() { unstepped_.step_is_spoilt(); }
  void on(const ZeroGradEvent& event, const RunState& state, Findings& findings) {
    put(unstepped_.on(event, state), findings);
  }
  void on(const OptimizerStepEvent& event, const RunState& state, Findings& findings) {
    put(repeated_.on(event, state), findings);
    put(remade_.on(event, state), findings);
    if (!event.threw) put(rates_.on(event, state), findings);
  }
  void at_exit(const RunState& state, Findings& findings) {
    unstepped_.at_exit(state, findings);
    rates_.at_exit(state, findings);
  }
  /// As `ZeroRates` has them.
  void said(std::string_view cause) { rates_.said(cause); }
  bool told(OptimizerId optimizer) const { return rates_.told(optimizer); }
  /// Events were lost.
  void drop() {
    unstepped_.drop();
    repeated_.clear();
    remade_.clear();
    rates_.clear();
  }

 private:
  static void put(std::optional<Finding>&& finding, Findings& findings) {
    if (finding.has_value()) findings.push_back(*std::move(finding));
  }

  UnsteppedOptimizers unstepped_;
  RepeatedSteps repeated_;
  RemadeOptimizers remade_;
  ZeroRates rates_;
};

}  // namespace ddpscope
