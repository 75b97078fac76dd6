#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <set>

#include "model/event.h"

namespace ddpscope {

/// Puts what a device tells late into the place where it was asked, so that checks see one order of
/// things on every device: what came after that place is held back until the values are there.
class LateValues {
 public:
  /// Events that are held at most, and then judged without the values.
  static constexpr std::size_t kMaxHeld = 1 << 16;

  /// Whether this event goes through here; the others need not.
  bool concerns(const Event& event) const noexcept;
  void put(Event&& event);
  /// The next event to judge; false: none, or it is held back.
  bool take(Event& event);

 private:
  void tell(DeviceValuesEvent&& values);
  bool pass_awaited(std::uint64_t batch);

  std::deque<Event> held_;  // the first one awaits its values, or may be taken
  std::deque<Event> told_;  // goes before those
  std::set<std::uint64_t> awaited_;
  std::map<std::uint64_t, std::unique_ptr<DeviceValuesEvent>> arrived_;
  std::uint64_t given_up_ = 0;  // batches up to this one; they are awaited in their order
};

}  // namespace ddpscope
