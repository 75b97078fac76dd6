#pragma once

#include <atomic>
#include <deque>
#include <mutex>

#include "model/event.h"

namespace ddpscope {

/// Which models there are, what they register and what optimizers hold: said once, and all later
/// judgements rest on it. So it outlives a queue that gives up its oldest events.
class KeptEvents {
 public:
  /// Takes an event that is older than all in the queue, if it is of these; false if it is not.
  bool keep(Event& oldest) noexcept;
  /// The oldest of them; false when there is none.
  bool take(Event& event) noexcept;

 private:
  bool hold(Event& oldest);

  std::mutex mutex_;
  std::deque<Event> events_;
  std::atomic<bool> any_{false};
};

}  // namespace ddpscope
