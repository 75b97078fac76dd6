#include "checks/nonfinite_check.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "checks/clip_finder.h"

namespace ddpscope {

void NonfiniteCheck::on_backward(const BackwardEvent& event, const RunState& state,
                                 Findings& findings) {
  trail_.begin_backward(event.accumulates);
  is_clipped_ = false;
  if (!cleared_) return;
  if (waits_for_closure(state)) {
    retried_ = true;
  } else {
    judge_skip(state, findings);
  }
  waiting_.clear();
  cleared_ = false;
}

void NonfiniteCheck::on_backward_end(const BackwardEndEvent& event, const RunState& state,
                                     Findings& findings) {
  judge_backward(trail_.origin(), event.at, state, findings);
  trail_.end_backward(event.at);
  // Nobody has taken them for a whole step.
  if (!waiting_.empty() && event.at.step > waiting_.back().at.step + 1) waiting_.clear();
  const auto& gradients = trail_.gradients();
  waiting_.insert(waiting_.end(), gradients.begin(), gradients.end());
  // Whoever trains without an optimizer takes the gradients as they are.
  if (waiting_.empty() || !state.optimizers().empty()) return;
  judge_step(/*cleared=*/false, state, findings);
  trail_.spoil(waiting_);
  waiting_.clear();
}

void NonfiniteCheck::on_spoilt_step(const SpoiltStepEvent& event, const RunState& state,
                                    Findings& findings) {
  trail_.begin_backward();
  trail_.add(event);
  judge_backward(trail_.origin(), event.at, state, findings);
  trail_.end_backward(event.at);
  waiting_ = event.gradients;
  judge_step(/*cleared=*/false, state, findings);
  trail_.spoil(waiting_);
  waiting_.clear();
  cleared_ = false;
}

// clip-nonfinite-norm tells of that, and of what comes of it.
void NonfiniteCheck::on_gradients_scaled(const GradientsScaledEvent& event, const RunState& state,
                                         Findings&) {
  const bool is_finite = std::isfinite(event.factor.value_or(1)) &&
                         (!event.quotient.has_value() || std::isfinite(event.quotient->norm));
  const bool is_clip = 2 * event.gradients >= gradients_beside(event.first, state);
  is_clipped_ |= is_clip && !is_finite;
}

// Between a backward and the step that takes what it left.
void NonfiniteCheck::on_gradients_spoilt(const GradientsSpoiltEvent& event, const RunState& state,
                                         Findings& findings) {
  if (!waiting_.empty() || is_clipped_) return;
  judge_backward(trail_.is_old(0) ? Origin::kEarlier : Origin::kNone, event.at, state, findings);
  trail_.add(event);
  waiting_ = event.gradients;
}

bool NonfiniteCheck::holds_waiting(OptimizerId optimizer, const RunState& state) const {
  return std::ranges::any_of(waiting_, [&](const NonfiniteGradientEvent& gradient) {
    const TensorState* tensor = state.tensor(gradient.tensor);
    if (tensor == nullptr || tensor->owners.empty()) {
      return !state.optimizers().at(optimizer).members_known;
    }
    return std::ranges::find(tensor->owners, optimizer) != tensor->owners.end();
  });
}

bool NonfiniteCheck::waits_for_closure(const RunState& state) const {
  return std::ranges::any_of(waiting_, [&](const NonfiniteGradientEvent& gradient) {
    return closures_.has_owner_of(gradient.tensor, state);
  });
}

void NonfiniteCheck::on_zero_grad(const ZeroGradEvent& event, const RunState& state, Findings&) {
  if (waiting_.empty()) return;
  cleared_ = cleared_ || event.optimizer == 0 || holds_waiting(event.optimizer, state);
}

void NonfiniteCheck::on_zero_gradients(const ZeroGradientsEvent& event, const RunState&,
                                       Findings&) {
  if (waiting_.empty()) return;
  cleared_ = cleared_ || std::ranges::all_of(waiting_, [&](const auto& gradient) {
               return std::ranges::find(event.members, gradient.tensor, &ZeroGradient::tensor) !=
                      event.members.end();
             });
}

void NonfiniteCheck::on_optimizer_step(const OptimizerStepEvent& event, const RunState& state,
                                       Findings& findings) {
  closures_.on_optimizer_step(event);
  if (std::exchange(retried_, false) && waiting_.empty()) return judge_recovery(findings);
  if (waiting_.empty()) habit_.step();
  if (waiting_.empty() || !holds_waiting(event.optimizer, state)) return;
  judge_step(cleared_, state, findings);
  if (!cleared_) {
    trail_.spoil(waiting_);
    habit_.forget();
  }
  waiting_.clear();
  cleared_ = false;
}

// Arrives where an optimizer begins to step. What a program repairs it expects.
void NonfiniteCheck::on_gradients_repaired(const GradientsRepairedEvent& event, const RunState&,
                                           Findings&) {
  const auto is_repaired = [&](const NonfiniteGradientEvent& gradient) {
    return std::ranges::find(event.tensors, gradient.tensor) != event.tensors.end();
  };
  if (waiting_.empty()) return;
  if (std::ranges::all_of(waiting_, is_repaired)) {
    cleared_ = true;
  } else {
    std::erase_if(waiting_, is_repaired);
  }
}

void NonfiniteCheck::on_dropped(const DroppedEvent&, const RunState&) {
  trail_.lose_events();
  waiting_.clear();
  habit_.forget();
  cleared_ = retried_ = false;
  forget();
}

}  // namespace ddpscope
