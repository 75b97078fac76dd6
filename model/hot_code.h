#pragma once

#include <cstddef>

/// Of functions that run in every step, also where hooks rest: they lie together, in few pages and
/// lines. The program's own code and data have taken the caches since the last step.
#define DDPSCOPE_HOT __attribute__((hot))

namespace ddpscope {

/// What is written next in memory that is gone round: the caches get it while others work.
inline void fetch_early(const void* begin, std::size_t bytes) noexcept {
  constexpr std::size_t kLine = 64;
  for (std::size_t at = 0; at < bytes; at += kLine) {
    __builtin_prefetch(static_cast<const char*>(begin) + at, /*for write=*/1);
  }
}

}  // namespace ddpscope
