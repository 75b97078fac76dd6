#pragma once

#include "model/event.h"

namespace ddpscope {

/// Where capture puts what it saw. Called on training threads: never blocks, never throws.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void put(Event&& event) noexcept = 0;
  /// The calling thread is where no hook holds a lock: what was put may be worked on here.
  virtual void take_turn() noexcept {}
};

}  // namespace ddpscope
