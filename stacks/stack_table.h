#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace ddpscope {

/// Names a stack of a StackTable; 0 is a stack that was not kept.
using StackId = std::uint32_t;

/// Keeps each stack once, for as long as the table lives. Nobody waits: threads read and write it
/// at the same time. Its memory is reserved at the begin and taken when it is used.
class StackTable {
 public:
  struct Limits {
    std::uint32_t stacks = 1 << 16;
    std::uint32_t frames_per_stack = 24;  ///< on the average: the room for all of them together
  };

  StackTable() : StackTable(Limits()) {}
  explicit StackTable(Limits limits);

  /// The same id for the same frames; 0 for no frames, and where the table is full. Allocates
  /// nothing. Any thread.
  StackId intern(std::span<void* const> frames) noexcept;

  /// Innermost first; empty for 0. The id must come from this table.
  std::span<void* const> frames(StackId id) const noexcept;

  std::uint64_t evicted() const noexcept { return evicted_.load(std::memory_order_relaxed); }
  std::uint32_t size() const noexcept { return stacks_.load(std::memory_order_relaxed); }

 private:
  struct Free {
    void operator()(void* memory) const noexcept;
  };
  using Slot = std::atomic<std::uint64_t>;  // the hash's upper half, the id

  bool holds(std::uint64_t slot, std::uint64_t hash, std::span<void* const> frames) const noexcept;
  StackId write(std::span<void* const> frames) noexcept;
  void take_back(StackId id, std::size_t count) noexcept;
  StackId give_up() noexcept;

  std::uint64_t slot_mask_ = 0;
  std::uint32_t words_limit_ = 0;
  std::uint32_t stacks_limit_ = 0;
  std::unique_ptr<Slot[], Free> slots_;
  /// The word at an id - 1 is the number of frames, the frames follow.
  std::unique_ptr<void*[], Free> words_;
  std::atomic<std::uint32_t> words_used_ = 0;
  std::atomic<std::uint32_t> stacks_ = 0;
  std::atomic<std::uint64_t> evicted_ = 0;
};

}  // namespace ddpscope
