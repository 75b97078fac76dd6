#pragma once

#include <cstddef>
#include <span>

namespace ddpscope {

struct CapturedStack {
  std::size_t frames = 0;
  bool complete = false;  ///< false: the outer frames are missing
};

/// Writes the return addresses of the calling thread, innermost first, starting in the function
/// that calls this one. Allocates nothing and throws nothing. The first capture of a thread asks
/// for its stack's bounds, and an address seen for the first time takes the loader's lock.
CapturedStack capture_stack(std::span<void*> frames) noexcept;

}  // namespace ddpscope
