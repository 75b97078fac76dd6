#pragma once

#include <map>
#include <unordered_map>
#include <vector>

#include "model/backward_event.h"

namespace ddpscope {

/// Counts what was added to each optimizer member's gradient between two steps of the optimizer,
/// and whether somebody cleared the gradient in between.
class GradientIntervals {
 public:
  /// What the step of an optimizer ends.
  struct Stale {
    std::vector<TensorId> parameters;
    std::int64_t accumulations = 0;  ///< the most since one was cleared
    std::int64_t steps = 0;          ///< likewise, of the optimizer
  };
  struct Closed {
    Stale never;                ///< not cleared in 3 cycles
    Stale now_and_then;         ///< not before this step, but before some of the others
    bool zeroed_first = false;  ///< those were before the first step, and may be again
    bool all = false;           ///< no other member got a gradient
    std::int64_t longest = 0;   ///< the most since a cleared one was cleared
  };

  void add(OptimizerId owner, const GradientEvent& event);
  /// Steps were not seen, in which gradients may have been added to and cleared.
  void rested();
  /// Its gradients are cleared, whatever the program writes there next.
  void clear(OptimizerId optimizer);
  Closed close(OptimizerId optimizer, std::int64_t cycle);
  /// The members, of any optimizer, that were seen to be cleared before its last step.
  std::vector<TensorId> cleared() const;
  void forget(OptimizerId optimizer) { optimizers_.erase(optimizer); }
  void clear() { optimizers_.clear(); }

 private:
  struct Member {
    std::int64_t accumulations = 0;
    std::int64_t since_clear = 0;
    std::int64_t steps = 0;  ///< since then
    bool had_gradient = false;
    bool cleared = false;
    bool is_first = false;      ///< its first gradient came: nothing was there to be cleared
    bool untold = false;        ///< it was 0, or steps were not seen: nobody may have cleared it
    bool rested = false;        ///< steps were not seen since the last one came
    bool was_untold = false;    ///< before the last step
    bool was_cleared = false;   ///< likewise
    bool was_first = false;     ///< likewise
    bool set_to_none = false;   ///< at some time since the first step
    bool cleared_each = false;  ///< before two steps in a row, at some time
    std::int64_t cleared_cycles = 0;  ///< in a row, before each of whose steps it was
    std::int64_t stale_cycles = 0;    ///< since the last two of these in a row
    std::int64_t untold_cycles = 0;   ///< among them, in which it cannot be told
    std::int64_t stale_cycle = 0;     ///< the last one
    std::int64_t untold_cycle = 0;    ///< likewise
    std::int64_t cycle = 0;           ///< of the last step
    std::int64_t clear_cycle = 0;     ///< of the last step that found it cleared; 0: none did
  };
  struct Members {
    bool stepped = false;
    bool zeroed = false;        ///< by its zero_grad(), at some time since its first step
    bool zeroed_first = false;  ///< or by other means, before that
    std::unordered_map<TensorId, Member> by_id;
  };
  static void clear(Member& member);
  static void end(Member& member, std::int64_t cycle);
  static bool is_now_and_then(const Members& members, const Member& member, std::int64_t cycle);
  static void add_untold(const std::vector<TensorId>& untold, Closed& closed);

  std::map<OptimizerId, Members> optimizers_;
};

/// How many accumulations come before a step of an optimizer.
class AccumulationPeriod {
 public:
  std::int64_t value() const { return value_; }  ///< 0: not known
  /// Before the step that ends, or 0: as many as came before each of the last ones, if these were
  /// fewer; else 0.
  std::int64_t exceeded_by(std::int64_t accumulations);

 private:
  std::int64_t value_ = 0;
  int agreed_ = 0;
};

}  // namespace ddpscope
