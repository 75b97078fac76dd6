#include "plugin/kept_events.h"

#include <algorithm>

namespace ddpscope {
namespace {
constexpr std::size_t kMost = 4096;

template <class T>
const T* held_in(const Event& event) {
  const auto* pointer = std::get_if<std::unique_ptr<T>>(&event);
  return pointer == nullptr ? nullptr : pointer->get();
}

/// What a newer tree of its model, or the end of that, says better.
template <class T>
bool is_of(const Event& event, ModelId model) {
  const T* told = held_in<T>(event);
  return told != nullptr && told->model == model;
}
}  // namespace

bool KeptEvents::keep(Event& oldest) noexcept {
  try {
    return hold(oldest);
  } catch (...) {  // no memory
    return false;
  }
}

bool KeptEvents::hold(Event& oldest) {
  const auto* end = std::get_if<TreeEndEvent>(&oldest);
  const auto* tree = held_in<TreeEvent>(oldest);
  const auto* members = held_in<OptimizerMembersEvent>(oldest);
  if (end == nullptr && tree == nullptr && members == nullptr) return false;
  const std::lock_guard lock(mutex_);
  if (members != nullptr) {
    std::erase_if(events_, [members](const Event& event) {
      const auto* told = held_in<OptimizerMembersEvent>(event);
      return told != nullptr && told->optimizer == members->optimizer;
    });
  } else {
    const ModelId model = end != nullptr ? end->model : tree->model;
    std::erase_if(events_, [model](const Event& event) { return is_of<TreeEvent>(event, model); });
  }
  if (end == nullptr && events_.size() >= kMost) return false;
  events_.push_back(std::move(oldest));
  any_.store(true, std::memory_order_release);
  return true;
}

bool KeptEvents::take(Event& event) noexcept {
  if (!any_.load(std::memory_order_acquire)) return false;
  const std::lock_guard lock(mutex_);
  if (events_.empty()) return false;
  event = std::move(events_.front());
  events_.pop_front();
  any_.store(!events_.empty(), std::memory_order_relaxed);
  return true;
}

}  // namespace ddpscope
