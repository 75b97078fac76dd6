#include "model/step_clock.h"

#include <algorithm>

namespace ddpscope {
namespace {
constexpr std::size_t kRecentSteps = 32;
constexpr int kGapsToLearn = 3;
constexpr std::int64_t kBackwardsWithoutStep = 64;
}  // namespace

StepClock::Change StepClock::optimizer_stepped(OptimizerId optimizer) {
  // The backward before the first step of an optimizer nobody announced has ended this step.
  const bool already_ended = recent_.empty() && completed_steps_ > 0;
  recent_.push_back(optimizer);
  if (recent_.size() > kRecentSteps) recent_.pop_front();
  ++stepped_in_cycle_[optimizer];

  Learned& learned = periods_[optimizer];
  const std::int64_t gap = backwards_ - learned.backwards_at_step;
  learned.agreed = gap == learned.period ? learned.agreed + 1 : 1;
  learned.period = gap;
  learned.backwards_at_step = backwards_;

  if (markers_rule_) return {};
  const bool cycle_ended = all_recent_stepped();
  if (cycle_ended) stepped_in_cycle_.clear();
  return already_ended ? Change{} : end_step(cycle_ended);
}

StepClock::Change StepClock::backward_ended() {
  ++backwards_;
  if (optimizer_expected_ && backwards_ <= kBackwardsWithoutStep) return {};
  if (markers_rule_ || !recent_.empty()) return {};
  return end_step(/*cycle_ended=*/true);
}

StepClock::Change StepClock::marked() {
  // What counted until now has ended the step before the first marker.
  const bool already_ended = !markers_rule_ && completed_steps_ > 0;
  markers_rule_ = true;
  if (already_ended) return {};
  return end_step(/*cycle_ended=*/true);
}

std::optional<std::int64_t> StepClock::period(OptimizerId optimizer) const {
  const auto learned = periods_.find(optimizer);
  if (learned == periods_.end() || learned->second.agreed < kGapsToLearn) return std::nullopt;
  return learned->second.period;
}

bool StepClock::all_recent_stepped() const {
  return std::ranges::all_of(
      recent_, [this](OptimizerId optimizer) { return stepped_in_cycle_.contains(optimizer); });
}

StepClock::Change StepClock::end_step(bool cycle_ended) {
  ++completed_steps_;
  if (cycle_ended) ++completed_cycles_;
  return {.step_ended = true, .cycle_ended = cycle_ended};
}

}  // namespace ddpscope
