#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checks/check.h"
#include "checks/cleared_beside.h"
#include "checks/foreign_gradients.h"
#include "checks/own_updates.h"
#include "checks/run_state.h"

namespace ddpscope {

/// Parameters that were updated with gradients of earlier steps.
struct StaleGradients {
  std::vector<TensorId> parameters;
  bool all = false;                ///< of those that are updated together
  bool now_and_then = false;       ///< they are cleared before some of the updates
  std::int64_t accumulations = 0;  ///< the most since one was cleared
  std::int64_t period = 0;         ///< accumulations per step before; 0: not learned
  std::string updates;             ///< `4 steps of SGD`
  std::string clearing;            ///< the call that would clear them
  std::vector<std::string> optimizers;
  std::string cleared_instead;    ///< an optimizer that holds none of them; "": none was
  std::vector<TensorId> cleared;  ///< that were, of any model
};

/// A finding for each part of a model that they are all of.
void say_stale(const StaleGradients& stale, const RunState& state, Findings& findings);

/// The same of what the program's own code updates.
void say_stale(OwnUpdates::Closed closed, const RunState& state, Findings& findings);

/// What was said of an optimizer: once in a cycle, and of parameters that come to those that were
/// told not again.
class SaidStale {
 public:
  void say(StaleGradients stale, const RunState& state, Findings& findings);

 private:
  std::int64_t cycle_ = 0;
  std::vector<TensorId> told_;
};

/// Whether these steps may be those of a loop within another one, which clears in between: it
/// cleared before the first of them, or another optimizer is still to step for the first time. Not
/// one that is cleared before each.
bool may_be_within_another_loop(const OptimizerState& optimizer, bool zeroed_first,
                                const ClearedBeside& beside, const RunState& state);
/// The one that is, and never steps; "" if there is none.
std::string cleared_instead_of(const OptimizerState& optimizer, const ClearedBeside& beside,
                               const RunState& state);

/// Gradients of two losses that one optimizer applied together.
void say_foreign(const ForeignGradients::Applied& applied, const RunState& state,
                 Findings& findings);

/// Of a model, and no optimizer holds it whose steps are seen: those of a class of the program's
/// own are not. What follows another parameter is not trained.
bool is_updated_by_program(const TensorState& tensor, const RunState& state);

/// More accumulations before a step of this optimizer than before each of the earlier ones.
Finding period_exceeded(std::int64_t accumulations, std::int64_t period,
                        const OptimizerState& optimizer, const RunState& state);

}  // namespace ddpscope
