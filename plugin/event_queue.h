#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "model/event_sink.h"
#include "model/hot_code.h"
#include "plugin/kept_events.h"

namespace ddpscope {

/// Bounded queue between training threads and the worker, without locks. When it is full the
/// oldest event gives way and is counted: a slow check costs findings, never step time. What
/// models and optimizers hold does not give way: it is set aside, under a lock.
///
/// Source: D. Vyukov, "Bounded MPMC queue" (each cell carries the turn in which it may be used).
class EventQueue final : public EventSink {
 public:
  /// `capacity` is a power of two.
  explicit EventQueue(std::size_t capacity);

  DDPSCOPE_HOT void put(Event&& event) noexcept override;
  /// The oldest event; false when there is none.
  bool take(Event& event) noexcept;
  std::int64_t dropped() const noexcept { return dropped_.load(std::memory_order_relaxed); }
  /// Events put so far: where a flush waits for.
  std::uint64_t put_count() const noexcept { return end_.load(std::memory_order_acquire); }
  std::uint64_t taken_count() const noexcept { return begin_.load(std::memory_order_acquire); }

 private:
  struct Cell {
    std::atomic<std::uint64_t> turn;
    Event event;
  };
  DDPSCOPE_HOT bool try_put(Event& event) noexcept;
  bool take_queued(Event& event) noexcept;

  std::size_t mask_;
  std::unique_ptr<Cell[]> cells_;
  KeptEvents kept_;
  alignas(64) std::atomic<std::uint64_t> end_{0};
  alignas(64) std::atomic<std::uint64_t> begin_{0};
  alignas(64) std::atomic<std::int64_t> dropped_{0};
};

}  // namespace ddpscope
