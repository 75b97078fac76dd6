#pragma once

#include <array>
#include <atomic>
#include <mutex>

#include "model/hot_code.h"
#include "model/step_clock.h"
#include "model/step_event.h"

namespace ddpscope {

/// The run's step clock as training threads use it, and the rule that says which steps are
/// surveyed: the first 3 cycles (at most 48 steps), then every 64th cycle, then whenever the set
/// of leaves that receive gradients changed, or that of parameters which require them. Of a step no
/// more than 16 backwards are: where an optimizer never steps it may be endless.
class StepMarker {
 public:
  void optimizer_created();
  DDPSCOPE_HOT void gradients_cleared();
  DDPSCOPE_HOT StepClock::Change optimizer_stepped(OptimizerId optimizer,
                                                   std::uintptr_t first_member = 0);
  DDPSCOPE_HOT StepClock::Change backward_ended();
  StepClock::Change marked();

  DDPSCOPE_HOT Stamp now() const noexcept;
  /// A model came: the cycles that follow are surveyed as those after the first attach are.
  void model_attached();
  bool makes_many_models() const noexcept {
    return models_.load(std::memory_order_relaxed) > kMaxFreshModels;
  }
  bool surveying() const noexcept { return surveying_.load(std::memory_order_relaxed); }
  /// Hooks rest from here to the end of the cycle. Cycles in which they do are not counted, and
  /// no step of theirs is surveyed: to the checks the run goes on where it was left.
  void rest(bool resting);
  /// Nor is what is left of the step in progress: its forward went unseen.
  void leave_survey() noexcept { surveying_.store(false, std::memory_order_relaxed); }
  bool has_rested() const noexcept { return has_rested_.load(std::memory_order_relaxed); }
  /// Steps were ended by one thread alone.
  bool has_one_thread() const noexcept { return !several_threads_.load(std::memory_order_relaxed); }
  /// The leaves reached by a finished backward, as an order-free hash of their ids; or which
  /// parameters of a model require gradients from here on.
  void leaves_reached(std::uint64_t hash);
  std::int64_t completed_steps() const noexcept { return step_.load() - 1; }
  std::int64_t backwards() const noexcept { return backwards_.load(std::memory_order_relaxed); }
  /// What was counted, hooks at rest or not; with the end of the step at `ended`.
  StepEndEvent step_end(const Stamp& ended) const noexcept;
  /// A part of a forward runs; the first one after a backward or a step is a new forward.
  void see_forward() noexcept {
    if (between_.load(std::memory_order_relaxed)) forward_began();
  }
  /// From the first part of a forward to the end of its backward.
  bool inside_forward() const noexcept { return !between_.load(std::memory_order_relaxed); }
  /// Hooks see all of the cycle that begins. Where they wake within it, they do not.
  void cycle_began(bool whole) noexcept { whole_.store(whole, std::memory_order_relaxed); }
  std::int64_t cycle() const noexcept { return cycle_.load(std::memory_order_relaxed); }

 private:
  static constexpr int kMaxFreshModels = 32;

  template <class Advance>
  StepClock::Change advance(Advance&& call);
  void forward_began() noexcept;
  bool is_surveyed() const;
  std::int64_t counted_cycle() const { return clock_.cycle() - rested_cycles_; }

  std::mutex mutex_;
  StepClock clock_;
  std::atomic<std::int64_t> step_{1};
  std::atomic<std::int64_t> cycle_{1};
  std::atomic<std::int64_t> backwards_{0};
  std::atomic<int> backwards_of_step_{0};
  std::atomic<std::int32_t> forwards_{0};
  std::atomic<std::int32_t> optimizer_steps_{0};
  std::atomic<bool> between_{true};  ///< no forward was seen since the last backward or step
  std::atomic<bool> whole_{true};
  std::atomic<bool> surveying_{true};
  std::atomic<bool> several_threads_{false};
  std::uint64_t thread_ = 0;
  std::atomic<bool> has_rested_{false};
  bool resting_ = false;
  std::int64_t rested_cycles_ = 0;
  std::int64_t armed_through_cycle_ = 0;
  std::int64_t survey_to_cycle_ = 3;  ///< a program without models is surveyed too
  std::int64_t survey_to_step_ = 48;
  std::atomic<int> models_{0};
  std::int64_t last_armed_cycle_ = INT64_MIN / 2;
  std::array<std::uint64_t, 8> known_leaves_{};
  std::size_t next_known_ = 0;
};

/// A small number for the calling thread, equal for the life of the thread.
DDPSCOPE_HOT std::uint64_t thread_number() noexcept;

}  // namespace ddpscope
