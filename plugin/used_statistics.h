#pragma once

#include <cstdint>

#include "model/collective_event.h"

namespace ddpscope {

/// Whether a rank used buffers of its own: evaluated with its running statistics or saved them,
/// without having exchanged them since its last step. What collectives carry is told from how much
/// it is: running means are a half of all buffers.
class UsedStatistics {
 public:
  void on(const CollectiveEvent& event) {
    if (!event.averages && !event.of_norm) exchanged_ += event.elements;
  }
  void step_ended() { exchanged_ = 0; }
  /// Of so many elements in all.
  void used(std::int64_t elements) { were_used_ |= exchanged_ < elements / 3; }
  bool were_used() const { return were_used_; }

 private:
  std::int64_t exchanged_ = 0;  // elements since the last step
  bool were_used_ = false;
};

}  // namespace ddpscope
