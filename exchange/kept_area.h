#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include "exchange/rank_ring.h"
#include "exchange/ring_layout.h"

namespace ddpscope {

/// The part of a ring that is never overwritten, and the numbers of the names in it. Any thread.
class KeptArea {
 public:
  /// `used` counts the bytes in `begin`, and is what a reader reads.
  KeptArea(char* begin, std::uint32_t bytes, std::uint64_t* used);

  /// Takes no lock where the name is known.
  NameId name(std::string_view text) noexcept;
  std::string text(NameId id);
  void put(const Blob& blob) noexcept;

 private:
  struct Slot {
    std::uint32_t index = 0;
    NameId id = 0;  ///< 0: free
  };
  Slot find(std::string_view text, std::uint64_t hash) const noexcept;
  /// Where the frame begins, or -1 when there is no room. Under the lock.
  std::int64_t append(const Blob& blob) noexcept;

  char* begin_;
  std::uint32_t bytes_;
  std::uint64_t* used_;
  std::uint32_t mask_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> places_;  ///< by hash: its half, frame / 8 + 1
  std::mutex mutex_;
  NameId names_ = 0;
};

}  // namespace ddpscope
