#pragma once

#include "checks/run_state.h"
#include "model/finding.h"

namespace ddpscope {

/// Graphs of earlier steps of which something other than the loss is kept.
class KeptParts {
 public:
  /// A note where some were kept, a warning where they were for long.
  Findings on(const BackwardEvent& event, const RunState& state);

 private:
  enum class Told : std::uint8_t { kNothing, kNote, kWarning };
  Told trained_ = Told::kNothing;
  Told evaluated_ = Told::kNothing;
};

}  // namespace ddpscope
