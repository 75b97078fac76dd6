#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>

namespace ddpscope {

/// Memory for objects that come and go in every step, made on one thread and freed on another: the
/// same few blocks again and again, so that they stay in the caches, and no allocator is asked.
/// What does not fit comes from the heap.
template <class T>
class RecycledMemory {
 public:
  static void* take() {
    std::uint64_t free = free_.load(std::memory_order_relaxed);
    while (free != 0) {
      const std::uint64_t lowest = free & -free;
      if (free_.compare_exchange_weak(free, free ^ lowest, std::memory_order_acquire,
                                      std::memory_order_relaxed)) {
        return blocks_[static_cast<std::size_t>(std::countr_zero(lowest))].bytes.data();
      }
    }
    return ::operator new(sizeof(T));
  }
  static void give_back(void* memory) noexcept {
    const auto offset =
        reinterpret_cast<std::uintptr_t>(memory) - reinterpret_cast<std::uintptr_t>(blocks_.data());
    if (offset >= sizeof blocks_) return ::operator delete(memory);
    free_.fetch_or(std::uint64_t{1} << offset / sizeof(Block), std::memory_order_release);
  }

 private:
  struct alignas(64) Block {
    std::array<std::byte, sizeof(T)> bytes;
  };
  static inline std::array<Block, 64> blocks_;
  static inline constinit std::atomic<std::uint64_t> free_{~std::uint64_t{0}};
};

}  // namespace ddpscope
