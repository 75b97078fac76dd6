#pragma once

#include <map>
#include <set>

#include "checks/run_state.h"
#include "checks/stale_text.h"
#include "model/autograd_event.h"
#include "model/finding.h"

namespace ddpscope {

enum class WrittenBy : std::uint8_t {
  kNotKnown,
  kThread,        ///< the one whose backward reads it
  kOtherThread,   ///< in a program of which several train
  kStillStepping  ///< whose optimizer steps for the first time: the end of that step tells
};

/// Which thread wrote what another one's backward reads: that in which the optimizer steps.
class WritingThreads {
 public:
  void add(const OptimizerStepEvent& event) { threads_[event.optimizer].insert(event.at.thread); }
  WrittenBy of(const StaleSavedEvent& event, const RunState& state) const;
  /// The program says that threads share it; `owner` may be null.
  bool is_intended(const StaleSavedEvent& event, const TensorState* owner,
                   const RunState& state) const;

 private:
  std::map<OptimizerId, std::set<std::uint64_t>> threads_;
};

/// Threads may share parameters on purpose, as Hogwild does: one finding for all that they write.
void say_other_thread(WriterText& writer, Finding& finding);

}  // namespace ddpscope
