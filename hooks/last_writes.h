#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ddpscope {

/// The number of the last write to each storage, in memory of a fixed size: where the places of a
/// storage are taken, the oldest of them is forgotten. No thread waits.
class LastWrites {
 public:
  static constexpr std::size_t kSets = 2048;
  static constexpr std::size_t kWays = 7;

  struct Last {
    std::uint64_t number = 0;  ///< 0: it was never written
    bool is_known = true;      ///< false: it was not written later than that, perhaps never
  };

  void put(std::uint64_t storage, std::uint64_t number) noexcept {
    Set& set = sets_[place_of(storage)];
    if (const std::size_t way = set.find(storage); way < kWays) {
      return set.ways[way].number.store(number, std::memory_order_relaxed);
    }
    Way& oldest = *std::ranges::min_element(
        set.ways, {}, [](const Way& one) { return one.number.load(std::memory_order_relaxed); });
    const std::uint64_t forgotten = oldest.number.exchange(number, std::memory_order_relaxed);
    oldest.storage.store(storage, std::memory_order_relaxed);
    if (forgotten > set.forgotten.load(std::memory_order_relaxed)) set.forgotten = forgotten;
  }

  Last of(std::uint64_t storage) const noexcept {
    const Set& set = sets_[place_of(storage)];
    if (const std::size_t way = set.find(storage); way < kWays) {
      return {.number = set.ways[way].number.load(std::memory_order_relaxed)};
    }
    const std::uint64_t forgotten = set.forgotten.load(std::memory_order_relaxed);
    return {.number = forgotten, .is_known = forgotten == 0};
  }

 private:
  struct Way {
    std::atomic<std::uint64_t> storage{0};
    std::atomic<std::uint64_t> number{0};
  };
  struct alignas(64) Set {
    /// `kWays`: not there.
    std::size_t find(std::uint64_t storage) const noexcept {
      std::size_t way = 0;
      while (way < kWays && ways[way].storage.load(std::memory_order_relaxed) != storage) ++way;
      return way;
    }
    std::array<Way, kWays> ways;
    std::atomic<std::uint64_t> forgotten{0};  ///< the highest number
  };

  static std::size_t place_of(std::uint64_t storage) noexcept {
    constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15;
    return (storage * kGolden >> 32) % kSets;
  }

  std::array<Set, kSets> sets_{};
};

}  // namespace ddpscope
