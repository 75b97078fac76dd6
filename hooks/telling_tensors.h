#pragma once

#include <c10/core/TensorImpl.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "hooks/module_tracker.h"

namespace ddpscope {

/// The tensors by which operators tell the calls of hooked modules: a look at one line of the cache
/// in place of one at each hook. Says yes for others too, and for all of them where modules changed
/// since the hooks looked at theirs.
class TellingTensors {
 public:
  static bool may_hold(const c10::TensorImpl* tensor) noexcept {
    if (!are_settled()) return true;
    const std::uint64_t bit = bit_of(tensor);
    return (bits_[bit / 64].load(std::memory_order_relaxed) >> (bit % 64) & 1) != 0;
  }
  static void add(const c10::TensorImpl* tensor) noexcept {
    const std::uint64_t bit = bit_of(tensor);
    bits_[bit / 64].fetch_or(std::uint64_t{1} << (bit % 64), std::memory_order_relaxed);
  }
  static bool are_settled() noexcept {
    return settled_.load(std::memory_order_acquire) == ModuleTracker::changes();
  }
  /// All hooks looked at their modules after this many changes.
  static void settle(std::uint64_t change) noexcept {
    settled_.store(change, std::memory_order_release);
  }

 private:
  static constexpr std::uint64_t kBits = 448;  // with what follows them one line of the cache
  static std::uint64_t bit_of(const c10::TensorImpl* tensor) noexcept {
    constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;
    return (reinterpret_cast<std::uintptr_t>(tensor) * kGolden >> 32) % kBits;
  }
  alignas(64) static inline constinit std::array<std::atomic<std::uint64_t>, kBits / 64> bits_{};
  static inline constinit std::atomic<std::uint64_t> settled_{0};
};

}  // namespace ddpscope
