#pragma once

#include <cstdint>

#include "model/cost_governor.h"
#include "model/hot_code.h"

namespace ddpscope {

class Capture;

/// Nanoseconds-cheap clock; ticks are turned into time once, at the end of the run.
inline std::uint64_t ticks() noexcept { return __builtin_ia32_rdtsc(); }

/// Reading the clock twice takes as long as the work of a brief hook: of those some are timed.
enum class Timed : std::uint8_t { kAlways, kSampled };

/// The first object of every hook: true when capture runs, the cycle is watched as much as the hook
/// needs, and this thread is not inside a hook of ours already. While it lives, what LibTorch calls
/// on this thread is not recorded.
class HookScope {
 public:
  DDPSCOPE_HOT explicit HookScope(Timed timed = Timed::kAlways,
                                  Watch needs = Watch::kNothing) noexcept;
  DDPSCOPE_HOT ~HookScope() noexcept;
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;

  explicit operator bool() const noexcept { return capture_ != nullptr; }
  Capture* operator->() const noexcept { return capture_; }
  Capture& operator*() const noexcept { return *capture_; }

 private:
  Capture* capture_ = nullptr;
  std::uint64_t begin_ = 0;
  std::uint32_t weight_ = 0;
  bool reads_values_ = false;
};

}  // namespace ddpscope
