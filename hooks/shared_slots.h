#pragma once

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <type_traits>

namespace ddpscope {

/// A table of records that any thread writes and reads without a lock. A record carries a key that
/// is neither 0 nor the largest; a reader that asks for another key, or meets a record while it is
/// overwritten, gets nothing. A record is lost where another thread writes the same place. The
/// memory is the system's own and never freed: it neither moves the program's heap nor dies before
/// the last hook.
template <class Record>
class SharedSlots {
  static_assert(std::is_trivially_copyable_v<Record> && sizeof(Record) % 8 == 0);
  using Words = std::array<std::uint64_t, sizeof(Record) / 8>;

 public:
  /// Rounded up to a power of two.
  explicit SharedSlots(std::size_t slots) : mask_(std::bit_ceil(slots) - 1) {
    void* memory = mmap(nullptr, sizeof(Slot) * size(), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    slots_ = static_cast<Slot*>(memory);
  }

  std::size_t size() const noexcept { return mask_ + 1; }

  bool has(std::uint64_t index, std::uint64_t key) const noexcept {
    return slots_[index & mask_].key.load(std::memory_order_relaxed) == key;
  }

  void put(std::uint64_t index, std::uint64_t key, const Record& record) noexcept {
    Slot& slot = slots_[index & mask_];
    const auto words = std::bit_cast<Words>(record);
    std::uint64_t before = slot.key.load(std::memory_order_relaxed);
    if (before == kWriting ||
        !slot.key.compare_exchange_strong(before, kWriting, std::memory_order_acquire)) {
      return;  // another thread writes here now: half of each would stand under one key
    }
    std::atomic_thread_fence(std::memory_order_release);
    for (std::size_t i = 0; i < words.size(); ++i) {
      slot.words[i].store(words[i], std::memory_order_relaxed);
    }
    slot.key.store(key, std::memory_order_release);
  }

  std::optional<Record> find(std::uint64_t index, std::uint64_t key) const noexcept {
    const Slot& slot = slots_[index & mask_];
    if (slot.key.load(std::memory_order_acquire) != key) return std::nullopt;
    Words words;
    for (std::size_t i = 0; i < words.size(); ++i) {
      words[i] = slot.words[i].load(std::memory_order_relaxed);
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    if (slot.key.load(std::memory_order_relaxed) != key) return std::nullopt;
    return std::bit_cast<Record>(words);
  }

 private:
  struct Slot {
    std::atomic<std::uint64_t> key;
    std::array<std::atomic<std::uint64_t>, sizeof(Record) / 8> words;
  };

  static constexpr std::uint64_t kWriting = UINT64_MAX;

  std::size_t mask_;
  Slot* slots_ = nullptr;
};

}  // namespace ddpscope
