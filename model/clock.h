#pragma once

#include <time.h>

#include <cstdint>

namespace ddpscope {

inline constexpr std::int64_t kMsNs = 1'000'000;

// Both call clock_gettime(2) alone, so signal handlers may.

inline std::int64_t clock_ns(clockid_t clock) noexcept {
  timespec now{};
  ::clock_gettime(clock, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

/// Since 1970: the clock that ranks share.
inline std::int64_t unix_ns() noexcept { return clock_ns(CLOCK_REALTIME); }

/// Never set back; of this machine alone.
inline std::int64_t steady_ns() noexcept { return clock_ns(CLOCK_MONOTONIC); }

}  // namespace ddpscope
