#include "model/step_clock.h"

#include <algorithm>
#include <utility>

namespace ddpscope {
namespace {
constexpr std::int64_t kBackwardsWithoutStep = 64;
constexpr std::int64_t kClearedWithoutStep = 8;
constexpr std::size_t kRecentSteps = 32;
constexpr std::size_t kMostRecentSteps = 4096;
}  // namespace

StepClock::StepClock() : last_(kRecentSteps) {}

void StepClock::remember(OptimizerId optimizer) {
  const bool is_full = kept_steps_ == last_.size();
  // All by different optimizers, as where each parameter has its own: there may be more of them.
  if (is_full && recent_.size() == kept_steps_ && kept_steps_ < kMostRecentSteps) {
    std::ranges::rotate(last_, last_.begin() + static_cast<std::ptrdiff_t>(next_));
    next_ = kept_steps_;
    last_.resize(2 * kept_steps_);
  } else if (is_full) {
    forget_oldest();
  }
  last_[next_] = optimizer;
  next_ = (next_ + 1) % last_.size();
  ++kept_steps_;
  ++optimizer_steps_;
}

void StepClock::forget_oldest() {
  --kept_steps_;
  Recent& oldest = recent(last_[next_]);
  if (--oldest.steps > 0) return;
  if (oldest.in_cycle) --in_cycle_;
  oldest = recent_.back();
  recent_.pop_back();
}

StepClock::Recent& StepClock::recent(OptimizerId optimizer) {
  const auto known = std::ranges::find(recent_, optimizer, &Recent::optimizer);
  return known != recent_.end() ? *known : recent_.emplace_back(Recent{.optimizer = optimizer});
}

/// One more object for the parameters of an earlier one, which steps no more.
bool StepClock::replace_remade(OptimizerId optimizer, std::uintptr_t first_member) {
  if (first_member == 0) return false;
  const auto before = std::ranges::find(recent_, first_member, &Recent::first_member);
  if (before == recent_.end()) return false;
  std::ranges::replace(last_, before->optimizer, optimizer);
  if (newest_ == before->optimizer) newest_ = 0;
  before->optimizer = optimizer;
  before->is_doubted = false;
  return true;
}

/// Optimizers of an earlier loop step no more: those that have not stepped between the first two
/// steps of one that was built later leave the cycle.
void StepClock::follow_newest(OptimizerId optimizer, std::uintptr_t first_member) {
  const bool is_known = std::ranges::find(recent_, optimizer, &Recent::optimizer) != recent_.end();
  if (optimizer == newest_) {
    std::erase_if(recent_, [](const Recent& one) { return one.is_doubted; });
    newest_ = 0;
  } else if (!is_known && some_created_ && !recent_.empty() &&
             !replace_remade(optimizer, first_member)) {
    for (Recent& one : recent_) one.is_doubted = !one.in_cycle;
    newest_ = optimizer;
  }
  if (!is_known) some_created_ = false;
}

void StepClock::gradients_cleared() {
  if (optimizer_steps_ > 0 || backwards_ == backwards_at_clear_) return;
  backwards_at_clear_ = backwards_;
  if (++cleared_ == kClearedWithoutStep) optimizer_expected_ = false;
}

StepClock::Change StepClock::optimizer_stepped(OptimizerId optimizer, std::uintptr_t first_member) {
  // The backward before the first step of an optimizer nobody announced has ended this step.
  const bool already_ended =
      optimizer_steps_ == 0 && std::exchange(last_backward_ended_step_, false);
  if (some_created_ || newest_ != 0) follow_newest(optimizer, first_member);
  remember(optimizer);
  Recent& stepped = recent(optimizer);
  ++stepped.steps;
  stepped.first_member = first_member;
  stepped.is_doubted = false;
  if (!stepped.in_cycle) ++in_cycle_;
  stepped.in_cycle = true;

  if (markers_rule_) return {};
  const bool cycle_ended = in_cycle_ == recent_.size();
  if (cycle_ended) {
    for (Recent& one : recent_) one.in_cycle = false;
    in_cycle_ = 0;
  }
  return already_ended ? Change{} : end_step(cycle_ended);
}

StepClock::Change StepClock::backward_ended() {
  ++backwards_;
  last_backward_ended_step_ = false;
  if (optimizer_expected_ && backwards_ <= kBackwardsWithoutStep) return {};
  if (markers_rule_ || optimizer_steps_ > 0) return {};
  last_backward_ended_step_ = true;
  return end_step(/*cycle_ended=*/true);
}

StepClock::Change StepClock::marked() {
  // What counted until now has ended the step before the first marker.
  const bool already_ended = !markers_rule_ && completed_steps_ > 0;
  markers_rule_ = true;
  if (already_ended) return {};
  return end_step(/*cycle_ended=*/true);
}

StepClock::Change StepClock::end_step(bool cycle_ended) {
  ++completed_steps_;
  if (cycle_ended) ++completed_cycles_;
  return {.step_ended = true, .cycle_ended = cycle_ended};
}

}  // namespace ddpscope
