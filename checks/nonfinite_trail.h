#pragma once

#include <cstdint>
#include <optional>
#include <unordered_set>
#include <vector>

#include "checks/run_state.h"

namespace ddpscope {

/// What was not finite in the backward in progress and, until the next one begins, in the last.
class NonfiniteTrail {
 public:
  enum class Origin : std::uint8_t {
    kNone,     ///< loss and gradients were finite
    kEarlier,  ///< parameters that an earlier step had spoilt, or part of the events is lost
    kForward,
    kBackward,
    kUnknown,  ///< gradients were not finite, and of the loss nothing is known
  };

  void add(const LossEvent& event);
  void add(const NonfiniteGradientEvent& event);
  void add(const NonfiniteNodeEvent& event);
  /// Stands for a whole backward.
  void add(const SpoiltStepEvent& event);
  void add(const GradientsSpoiltEvent& event);
  /// LibTorch threw; anomaly mode names the node.
  void add(const ErrorEvent& event);
  void add(const RiskyInputEvent& event);
  void add(const CollectiveEvent& event);
  /// The loss comes before `BackwardEvent`. `accumulates`: into leaves, as autograd::grad() does
  /// not.
  void begin_backward(bool accumulates = true);
  void end_backward(const Stamp& at);
  void lose_events();
  /// From the next backward on these leaves are spoilt: their optimizer stepped with gradients that
  /// were not finite.
  void spoil(const std::vector<NonfiniteGradientEvent>& gradients);

  Origin origin() const;
  /// Whether what is not finite is so since an earlier step, or cannot be told apart from that.
  bool is_old(TensorId source) const;
  const LossEvent* loss() const { return loss_.has_value() ? &*loss_ : nullptr; }
  struct Growth {
    LossEvent first;
    LossEvent last;
  };
  /// Of the losses that were finite, by four orders of magnitude; over steps.
  std::optional<Growth> growth() const;
  /// In the order in which they arrived.
  const std::vector<NonfiniteGradientEvent>& gradients() const { return gradients_; }
  /// Nothing but the gradients was looked at, before their optimizer stepped.
  bool rested() const { return rested_; }
  /// And that after they had been averaged: any rank may have made them so.
  bool averaged() const { return (rested_ || spoilt_after_.has_value()) && averaged_; }
  /// What the program made of finite gradients after the last backward; null if nothing.
  const GradientsSpoiltEvent* spoilt() const { return spoilt_after_ ? &*spoilt_after_ : nullptr; }
  /// Then the last leaf whose gradient was finite; 0: there was none.
  TensorId last_finite() const { return last_finite_; }
  /// The first node that made NaN or Inf out of finite gradients; null if none was seen.
  const NonfiniteNodeEvent* node() const { return node_.has_value() ? &*node_ : nullptr; }
  /// Of the operator that returned this in the same step; null if it is not at the edge.
  const RiskyInputEvent* risky_input_of(TensorId output) const;
  /// Of the last backward that has ended.
  const Stamp& ended() const { return ended_; }

 private:
  std::optional<LossEvent> loss_;  ///< the first that was not finite, or else the last
  std::optional<LossEvent> first_finite_loss_;
  LossEvent last_finite_loss_;
  std::vector<NonfiniteGradientEvent> gradients_;
  bool rested_ = false;
  bool averaged_ = false;
  std::int64_t averages_in_ = -1;  ///< the last step in which gradients were averaged
  std::optional<GradientsSpoiltEvent> spoilt_after_;
  TensorId last_finite_ = 0;
  std::optional<NonfiniteNodeEvent> node_;
  bool anomaly_ = false;                ///< LibTorch threw because of the node
  std::vector<RiskyInputEvent> risky_;  ///< of one step
  bool accumulates_ = true;
  bool has_ended_ = false;
  Stamp ended_;
  bool lost_ = false;    ///< events; until the next backward has ended
  bool spoilt_ = false;  ///< until a backward into leaves ends in which all was finite
  bool spoils_ = false;  ///< from the next backward on
  std::unordered_set<TensorId> spoilt_leaves_;
  std::vector<TensorId> next_spoilt_;
};

}  // namespace ddpscope
