#include "plugin/event_queue.h"

#include "model/hot_code.h"

namespace ddpscope {

EventQueue::EventQueue(std::size_t capacity)
    : mask_(capacity - 1), cells_(std::make_unique<Cell[]>(capacity)) {
  for (std::size_t i = 0; i < capacity; ++i) cells_[i].turn.store(i, std::memory_order_relaxed);
}

void EventQueue::put(Event&& event) noexcept {
  // Between two tries another thread may fill the freed cell: after some the newest gives way.
  constexpr int kTries = 16;
  for (int i = 0; i < kTries; ++i) {
    if (try_put(event)) return;
    Event oldest;
    if (take(oldest)) dropped_.fetch_add(1, std::memory_order_relaxed);
  }
  dropped_.fetch_add(1, std::memory_order_relaxed);
}

bool EventQueue::try_put(Event& event) noexcept {
  std::uint64_t position = end_.load(std::memory_order_relaxed);
  for (;;) {
    Cell& cell = cells_[position & mask_];
    const std::uint64_t turn = cell.turn.load(std::memory_order_acquire);
    if (turn == position) {
      if (!end_.compare_exchange_weak(position, position + 1, std::memory_order_relaxed)) continue;
      cell.event = std::move(event);
      cell.turn.store(position + 1, std::memory_order_release);
      fetch_early(&cells_[(position + 1) & mask_], sizeof(Cell));
      return true;
    }
    if (turn < position) return false;  // full
    position = end_.load(std::memory_order_relaxed);
  }
}

bool EventQueue::take(Event& event) noexcept {
  std::uint64_t position = begin_.load(std::memory_order_relaxed);
  for (;;) {
    Cell& cell = cells_[position & mask_];
    const std::uint64_t turn = cell.turn.load(std::memory_order_acquire);
    if (turn == position + 1) {
      if (!begin_.compare_exchange_weak(position, position + 1, std::memory_order_relaxed)) {
        continue;
      }
      event = std::move(cell.event);
      cell.turn.store(position + mask_ + 1, std::memory_order_release);
      return true;
    }
    if (turn <= position) return false;  // empty
    position = begin_.load(std::memory_order_relaxed);
  }
}

}  // namespace ddpscope
