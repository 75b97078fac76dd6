#pragma once

#include <map>
#include <set>

#include "checks/mode_text.h"
#include "model/op_event.h"

namespace ddpscope {

/// Finds evaluations of models in training mode. Losses that belong to a step, as those of a line
/// search, are there step after step: an evaluation is followed by steps without one, or by the
/// end.
class EvaluationsInTraining {
 public:
  /// Its optimizer steps.
  void trains(ModelId model) { trained_.insert(model); }
  void judged(const JudgedOutputEvent& event, const RunState& state);
  /// What is known after `step` steps. Each model is told once.
  void tell(std::int64_t step, const RunState& state, Findings& findings);
  void tell_at_exit(const RunState& state, Findings& findings);
  void clear() { models_.clear(); }

 private:
  struct Evaluated {
    EvaluatedInTraining what;
    std::int64_t step = -1;  // of the last bout
    std::int64_t outputs = 0;
    bool follows = false;  // right after another one
    bool told = false;
  };
  static void end_bout(Evaluated& evaluated);

  std::set<ModelId> trained_;
  std::map<ModelId, Evaluated> models_;
};

}  // namespace ddpscope
