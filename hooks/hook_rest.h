#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>

#include "model/hot_code.h"

namespace ddpscope {

/// A hook that stands in its slot of the gate.
struct HookedSlot {
  void** slot = nullptr;  ///< null: the gate has none
  void* hook = nullptr;
  void* at_rest = nullptr;  ///< what stands there where it rests: LibTorch's function, mostly
};

// Note [Hooks at rest]
// A hook that returns at once still takes 100 ns of a step: its code and its data push out of the
// caches what the program computes with. Hooks that have nothing to do for a while are taken out of
// the gate, and calls go straight to LibTorch. A thread that is inside of one leaves it as always.

/// Hooks that rest together. A hook before which another one was put stays (Note [Outer hooks]).
class HookGroup {
 public:
  /// From the next `rest` on; one too many stays in the gate. Again: no difference.
  void add(const HookedSlot& hooked) noexcept;
  DDPSCOPE_HOT void rest() noexcept;
  DDPSCOPE_HOT void wake() noexcept;

 private:
  template <class Exchange>
  void for_each(Exchange&& exchange) noexcept;

  static constexpr std::size_t kMost = 64;
  std::array<HookedSlot, kMost> hooks_{};
  std::atomic<std::size_t> count_{0};
  std::mutex adding_;
};

/// Hooks that do nothing in cycles that are not watched.
HookGroup& cycle_hooks() noexcept;
/// Hooks of operators that then serve hooks of the program and waits for devices alone.
HookGroup& operator_hooks() noexcept;

}  // namespace ddpscope
