#include "hooks/step_marker.h"

#include <algorithm>

#include "hooks/near_tls.h"
#include "model/clock.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kFirstCycles = 3;
constexpr std::int64_t kFirstSteps = 48;
constexpr std::int64_t kSurveyEvery = 64;
constexpr std::int64_t kArmAtMostEvery = 16;
constexpr int kSurveyedBackwards = 16;
}  // namespace

template <class Advance>
StepClock::Change StepMarker::advance(Advance&& call) {
  const std::lock_guard lock(mutex_);
  const StepClock::Change change = call(clock_);
  if (change.cycle_ended && resting_) ++rested_cycles_;
  if (change.step_ended && thread_ != thread_number()) {
    if (thread_ != 0) several_threads_.store(true, std::memory_order_relaxed);
    thread_ = thread_number();
  }
  step_.store(clock_.step(), std::memory_order_relaxed);
  cycle_.store(counted_cycle(), std::memory_order_relaxed);
  if (change.step_ended) {
    surveying_.store(is_surveyed(), std::memory_order_relaxed);
    backwards_of_step_.store(0, std::memory_order_relaxed);
  }
  return change;
}

void StepMarker::rest(bool resting) {
  const std::lock_guard lock(mutex_);
  if (resting == resting_) return;
  resting_ = resting;
  if (resting) has_rested_.store(true, std::memory_order_relaxed);
  surveying_.store(is_surveyed(), std::memory_order_relaxed);
}

void StepMarker::optimizer_created() {
  const std::lock_guard lock(mutex_);
  clock_.optimizer_created();
}

void StepMarker::gradients_cleared() {
  if (optimizer_steps_.load(std::memory_order_relaxed) > 0) return;
  const std::lock_guard lock(mutex_);
  clock_.gradients_cleared();
}

StepClock::Change StepMarker::optimizer_stepped(OptimizerId optimizer,
                                                std::uintptr_t first_member) {
  optimizer_steps_.fetch_add(1, std::memory_order_relaxed);
  return advance(
      [&](StepClock& clock) { return clock.optimizer_stepped(optimizer, first_member); });
}

StepClock::Change StepMarker::backward_ended() {
  backwards_.fetch_add(1, std::memory_order_relaxed);
  between_.store(true, std::memory_order_relaxed);
  const StepClock::Change change = advance([](StepClock& clock) { return clock.backward_ended(); });
  const bool goes_on = !change.step_ended;
  if (goes_on && backwards_of_step_.fetch_add(1) + 1 == kSurveyedBackwards) leave_survey();
  return change;
}

StepClock::Change StepMarker::marked() {
  return advance([](StepClock& clock) { return clock.marked(); });
}

void StepMarker::model_attached() {
  const std::lock_guard lock(mutex_);
  if (++models_ > kMaxFreshModels) return;  // who makes models in a loop is not surveyed always
  survey_to_cycle_ = counted_cycle() - 1 + kFirstCycles;
  survey_to_step_ = clock_.step() - 1 + kFirstSteps;
  surveying_.store(!resting_, std::memory_order_relaxed);
}

Stamp StepMarker::now() const noexcept {
  return {.step = step_.load(std::memory_order_relaxed),
          .cycle = cycle_.load(std::memory_order_relaxed),
          .thread = thread_number()};
}

StepEndEvent StepMarker::step_end(const Stamp& ended) const noexcept {
  return {.at = ended,
          .whole = whole_.load(std::memory_order_relaxed),
          .unix_ns = unix_ns(),
          .forwards = forwards_.load(std::memory_order_relaxed),
          .backwards = static_cast<std::int32_t>(backwards()),
          .optimizer_steps = optimizer_steps_.load(std::memory_order_relaxed)};
}

void StepMarker::forward_began() noexcept {
  if (between_.exchange(false)) forwards_.fetch_add(1, std::memory_order_relaxed);
}

void StepMarker::leaves_reached(std::uint64_t hash) {
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(known_leaves_, hash) != known_leaves_.end()) return;
  known_leaves_[next_known_++ % known_leaves_.size()] = hash;
  const std::int64_t cycle = counted_cycle();
  if (cycle > kFirstCycles && cycle - last_armed_cycle_ >= kArmAtMostEvery) {
    armed_through_cycle_ = cycle + kFirstCycles;  // checks want as many in a row
    last_armed_cycle_ = cycle;
  }
}

bool StepMarker::is_surveyed() const {
  if (resting_) return false;
  const bool first = counted_cycle() <= survey_to_cycle_ && clock_.step() <= survey_to_step_;
  return first || counted_cycle() <= armed_through_cycle_ || counted_cycle() % kSurveyEvery == 0;
}

std::uint64_t thread_number() noexcept {
  static constinit std::atomic<std::uint64_t> last{0};
  DDPSCOPE_NEAR static constinit thread_local std::uint64_t number = 0;
  if (number == 0) number = ++last;
  return number;
}

}  // namespace ddpscope
