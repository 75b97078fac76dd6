#pragma once

#include <cstdint>

#include "hooks/hook_scope.h"
#include "hooks/near_tls.h"
#include "model/hot_code.h"

namespace ddpscope {

class Capture;
struct StepEndEvent;

struct PendingWait {
  bool pending = false;
  bool archived = false;
  bool resting = false;
  std::int32_t loader_threads = 0;
  std::uint64_t drawn_ticks = 0;
  std::uint64_t computed_ticks = 0;
  std::uint64_t device_ticks = 0;
  std::int64_t exchanged_ns = 0;
  float step_ms = 0;
  float waited_ms = 0;
  float forward_ms = 0;
  double ended_ms = 0;  ///< since the start of the capture
  double hooks_before_ms = 0;
};

/// The time of a thread from the end of a step to the first part of the next forward, in which its
/// program fetches data.
class StepWait {
 public:
  /// This thread has ended a step. `resting`: hooks rest in the next one, of which only a wait that
  /// is long by itself is told.
  DDPSCOPE_HOT static void begin(Capture& capture, bool resting) noexcept;
  /// This thread runs a part of a forward.
  static void see_forward() noexcept {
    if (now_.pending) end();
  }
  /// This thread begins a backward.
  static void see_backward(const Capture& capture) noexcept {
    if (now_.waited_ms > 0 && now_.forward_ms == 0) end_forward(capture);
  }
  /// How long the parts of the step that ends took this thread.
  static void add_to(StepEndEvent& event) noexcept;
  /// What follows is no wait: the program updates the parameters itself.
  static void drop() noexcept { now_.pending = false; }
  /// Nothing will tell where the next forward begins.
  static void forget() noexcept { now_ = {}; }
  static void see_archive() noexcept { now_.archived = true; }

  static bool is_pending() noexcept { return now_.pending; }
  /// An operator took so long.
  static void add_operator(std::uint64_t ticks, bool draws) noexcept {
    (draws ? now_.drawn_ticks : now_.computed_ticks) += ticks;
  }
  /// This thread spent that in a collective or waited for one: that is no wait for data.
  static void add_exchange(std::int64_t ns) noexcept {
    if (now_.pending) now_.exchanged_ns += ns;
  }
  /// This thread waited so long for a device, as to read the loss: that is none either.
  static void add_device_wait(std::uint64_t ticks) noexcept {
    if (now_.pending) now_.device_ticks += ticks;
  }
  /// The time of this thread, which stands still while it waits for a device.
  static std::uint64_t own_ticks() noexcept { return ticks() - now_.device_ticks; }

 private:
  DDPSCOPE_HOT static void end() noexcept;
  DDPSCOPE_HOT static void end_forward(const Capture& capture) noexcept;

  DDPSCOPE_NEAR static inline constinit thread_local PendingWait now_{};
};

}  // namespace ddpscope
