#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "checks/mode_text.h"
#include "model/op_event.h"

namespace ddpscope {

/// Finds operators that run in training mode while the models are in eval mode: by the operators,
/// or, where hooks rest, by losses and comparisons that judged what came of them.
class OpsInEval {
 public:
  void ran(const TrainingOpEvent& event, const RunState& state, Findings& findings);
  void judged(const JudgedOutputEvent& event, const RunState& state, Findings& findings);
  void clear() { places_.clear(); }

 private:
  struct Count {
    std::int64_t ran = 0;
    std::int64_t judged = 0;
    bool told = false;
  };
  Count* count_of(const InEval& in_eval, const RunState& state);
  static void tell(std::int64_t times, Count& count, const InEval& in_eval, const RunState& state,
                   Findings& findings);

  std::map<std::pair<ModelId, std::string>, Count> places_;
};

}  // namespace ddpscope
