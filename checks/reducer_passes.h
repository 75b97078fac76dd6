#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "model/optimizer_event.h"
#include "model/reducer_event.h"

namespace ddpscope {

class RunState;

/// The passes of Reducers that ended without averages. Each is held until nothing can complete it
/// any more: an optimizer has used its gradients, or the next pass begins.
class ReducerPasses {
 public:
  using Passes = std::vector<ReducerEvent>;

  /// Those that are decided now, each once.
  Passes on(const ReducerEvent& event);
  Passes on(const OptimizerStepEvent& event, const RunState& state);
  void clear() { open_.clear(); }

 private:
  std::map<std::uint64_t, ReducerEvent> open_;  // by Reducer
};

}  // namespace ddpscope
