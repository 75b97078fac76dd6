#include "plugin/event_queue.h"

#include "model/hot_code.h"

// Of the program's ThreadSanitizer, if it has one: that sees what is allocated here and freed
// there, but not our turns.
extern "C" {
[[gnu::weak]] void __tsan_acquire(void* address);  // NOLINT(bugprone-reserved-identifier)
[[gnu::weak]] void __tsan_release(void* address);  // NOLINT(bugprone-reserved-identifier)
}

namespace ddpscope {
namespace {
void acquired(void* cell) noexcept {
  if (__tsan_acquire != nullptr) __tsan_acquire(cell);
}
void released(void* cell) noexcept {
  if (__tsan_release != nullptr) __tsan_release(cell);
}
}  // namespace

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
    if (!take_queued(oldest) || kept_.keep(oldest)) continue;
    dropped_.fetch_add(1, std::memory_order_relaxed);
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
      acquired(&cell);
      cell.event = std::move(event);
      released(&cell);
      cell.turn.store(position + 1, std::memory_order_release);
      fetch_early(&cells_[(position + 1) & mask_], sizeof(Cell));
      return true;
    }
    if (turn < position) return false;  // full
    position = end_.load(std::memory_order_relaxed);
  }
}

bool EventQueue::take(Event& event) noexcept { return kept_.take(event) || take_queued(event); }

bool EventQueue::take_queued(Event& event) noexcept {
  std::uint64_t position = begin_.load(std::memory_order_relaxed);
  for (;;) {
    Cell& cell = cells_[position & mask_];
    const std::uint64_t turn = cell.turn.load(std::memory_order_acquire);
    if (turn == position + 1) {
      if (!begin_.compare_exchange_weak(position, position + 1, std::memory_order_relaxed)) {
        continue;
      }
      acquired(&cell);
      event = std::move(cell.event);
      released(&cell);
      cell.turn.store(position + mask_ + 1, std::memory_order_release);
      return true;
    }
    if (turn <= position) return false;  // empty
    position = begin_.load(std::memory_order_relaxed);
  }
}

}  // namespace ddpscope
