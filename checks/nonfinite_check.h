#pragma once

#include <vector>

#include "checks/check.h"
#include "checks/nonfinite_trail.h"
#include "checks/skip_habit.h"
#include "checks/step_owners.h"

namespace ddpscope {

/// A check that speaks of steps in which something was not finite.
class NonfiniteCheck : public Check {
 public:
  void on_loss(const LossEvent& event, const RunState&, Findings&) override { trail_.add(event); }
  void on_nonfinite_gradient(const NonfiniteGradientEvent& event, const RunState&,
                             Findings&) override {
    trail_.add(event);
  }
  void on_nonfinite_node(const NonfiniteNodeEvent& event, const RunState&, Findings&) override {
    trail_.add(event);
  }
  void on_gradients_repaired(const GradientsRepairedEvent& event, const RunState&,
                             Findings&) override;
  void on_gradients_scaled(const GradientsScaledEvent& event, const RunState& state,
                           Findings&) override;
  void on_gradients_spoilt(const GradientsSpoiltEvent& event, const RunState& state,
                           Findings& findings) override;
  void on_spoilt_step(const SpoiltStepEvent& event, const RunState& state,
                      Findings& findings) override;
  void on_risky_input(const RiskyInputEvent& event, const RunState&, Findings&) override {
    trail_.add(event);
  }
  void on_collective(const CollectiveEvent& event, const RunState&, Findings&) override {
    trail_.add(event);
  }
  void on_error(const ErrorEvent& event, const RunState&, Findings&) override { trail_.add(event); }
  void on_backward(const BackwardEvent& event, const RunState& state, Findings& findings) override;
  void on_backward_end(const BackwardEndEvent& event, const RunState& state,
                       Findings& findings) override;
  void on_zero_grad(const ZeroGradEvent& event, const RunState& state, Findings&) override;
  void on_zero_gradients(const ZeroGradientsEvent& event, const RunState&, Findings&) override;
  void on_optimizer_step(const OptimizerStepEvent& event, const RunState& state,
                         Findings& findings) override;
  void on_dropped(const DroppedEvent&, const RunState&) override;

 protected:
  using Origin = NonfiniteTrail::Origin;
  /// A backward has ended; `origin` of what was not finite in it.
  virtual void judge_backward(Origin, const Stamp&, const RunState&, Findings&) {}
  /// Gradients that were not finite reached the step of their optimizer; `cleared`: the program
  /// reset them before it.
  virtual void judge_step(bool /*cleared*/, const RunState&, Findings&) {}
  /// The program reset such gradients and went on without a step of their optimizer.
  virtual void judge_skip(const RunState&, Findings&) {}
  /// A closure reset such gradients and computed finite ones, within the step of its optimizer.
  virtual void judge_recovery(Findings&) {}
  virtual void forget() {}

  const NonfiniteTrail& trail() const { return trail_; }
  /// Of the leaves whose gradients wait for a step, in the order in which they arrived.
  const std::vector<NonfiniteGradientEvent>& waiting() const { return waiting_; }
  const ClosureSteps& closures() const { return closures_; }
  /// Who judges a skip tells it which ones count.
  SkipHabit& habit() { return habit_; }

 private:
  bool holds_waiting(OptimizerId optimizer, const RunState& state) const;
  bool waits_for_closure(const RunState& state) const;

  NonfiniteTrail trail_;
  ClosureSteps closures_;
  SkipHabit habit_;
  bool is_clipped_ = false;  ///< by a norm that is not finite, since the last backward
  std::vector<NonfiniteGradientEvent> waiting_;
  bool cleared_ = false;  ///< since they began to wait; by zeros, or repaired
  bool retried_ = false;  ///< by a closure, whose step has not ended
};

}  // namespace ddpscope
