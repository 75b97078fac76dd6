#pragma once

#include <cstdint>

namespace ddpscope {

/// The addresses of a thread's own stack, [begin, end).
struct StackBounds {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;

  bool holds_word(std::uintptr_t address) const noexcept {
    return address >= begin && address < end && end - address >= 8 && address % 8 == 0;
  }
};

/// Of the calling thread; empty if they cannot be learnt. Remembered per thread.
const StackBounds& stack_bounds() noexcept;

}  // namespace ddpscope
