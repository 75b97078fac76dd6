#include "hooks/watched_reducers.h"

#include <algorithm>
#include <utility>

#include "hooks/capture.h"
#include "model/reducer_event.h"

namespace ddpscope {

void WatchedReducer::begin(const void* reducer, std::uint64_t number, Plan plan) {
  number_ = number;
  ready_in_.assign(plan.parameters.size(), 0);
  plan_ = std::move(plan);
  pass_ = 0;
  marked_in_ = 0;
  expects_ = was_reached_ = is_static_ = built_ = false;
  is_told_ = false;
  self_.store(reducer, std::memory_order_release);
}

void WatchedReducer::begin_pass() noexcept {
  pass_.fetch_add(1, std::memory_order_relaxed);
  was_reached_.store(false, std::memory_order_relaxed);
  expects_.store(true, std::memory_order_relaxed);
}

void WatchedReducer::reached() noexcept {
  if (!was_reached_.load(std::memory_order_relaxed)) was_reached_ = true;
}

void WatchedReducer::ready(std::size_t index) noexcept {
  const std::uint32_t pass = pass_.load(std::memory_order_relaxed);
  if (index < ready_in_.size()) {
    std::atomic_ref(ready_in_[index]).store(pass, std::memory_order_relaxed);
  }
  if (marked_in_.load(std::memory_order_relaxed) != pass) marked_in_ = pass;
}

void WatchedReducer::tell_finished(Capture* capture) {
  expects_.store(false, std::memory_order_relaxed);
  if (!is_told_.exchange(false) || capture == nullptr) return;
  capture->put_large(ReducerEvent{
      .at = capture->marker().now(), .stage = ReducerStage::kFinished, .reducer = number_});
}

void WatchedReducer::tell_next(Capture& capture) {
  if (!built_.exchange(true, std::memory_order_relaxed)) {
    capture.put_large(ReducerEvent{.at = capture.marker().now(),
                                   .stage = ReducerStage::kBuilt,
                                   .reducer = number_,
                                   .ranks = plan_.ranks,
                                   .bucket_views = plan_.bucket_views});
  }
  if (!is_told_.exchange(false)) return;
  capture.put_large(ReducerEvent{
      .at = capture.marker().now(), .stage = ReducerStage::kAbandoned, .reducer = number_});
}

// Where no mark was seen at all and the graph is not static, its calls do not come through the
// gate.
bool WatchedReducer::waits_for(std::size_t index) noexcept {
  return std::atomic_ref(ready_in_[index]).load(std::memory_order_relaxed) !=
         pass_.load(std::memory_order_relaxed);
}

bool WatchedReducer::is_incomplete() noexcept {
  const bool waits = expects_.load(std::memory_order_relaxed) && was_reached_.load();
  if (!waits) return false;
  const std::uint32_t pass = pass_.load(std::memory_order_relaxed);
  if (marked_in_.load(std::memory_order_relaxed) != pass) return is_static_.load();
  for (std::size_t i = 0; i < ready_in_.size(); ++i) {
    if (waits_for(i)) return true;
  }
  return false;
}

void WatchedReducer::tell_unfinished(Capture& capture) {
  if (!is_incomplete()) return;
  const std::uint32_t pass = pass_.load(std::memory_order_relaxed);
  ReducerEvent event{.at = capture.marker().now(),
                     .stage = ReducerStage::kUnfinished,
                     .reducer = number_,
                     .ranks = plan_.ranks,
                     .bucket_views = plan_.bucket_views,
                     .only_counts = marked_in_.load(std::memory_order_relaxed) != pass};
  for (std::size_t i = 0; i < plan_.parameters.size(); ++i) {
    const at::Tensor parameter(plan_.parameters[i].lock());
    if (!parameter.defined()) continue;
    event.parameters.push_back(capture.announce(parameter));
    if (!event.only_counts && waits_for(i)) event.not_ready.push_back(event.parameters.back());
  }
  is_told_ = true;
  capture.put_large(std::move(event));
}

void WatchedReducers::born(const void* reducer, WatchedReducer::Plan plan) {
  const std::lock_guard lock(mutex_);
  const auto free = std::ranges::find_if(all_, [](const auto& one) { return one.is(nullptr); });
  if (free == all_.end()) return;
  free->begin(reducer, ++births_, std::move(plan));
  const auto place = static_cast<std::size_t>(free - all_.begin());
  used_.store(std::max(used_.load(), place + 1), std::memory_order_release);
  hook_state.has_reducers.store(true, std::memory_order_relaxed);
}

void WatchedReducers::died(const void* reducer) noexcept {
  const std::lock_guard lock(mutex_);
  if (WatchedReducer* const dead = find(reducer)) dead->end();
}

void WatchedReducers::tell_unfinished(Capture& capture) {
  if (used_.load(std::memory_order_acquire) == 0) return;
  const std::lock_guard lock(mutex_);
  for (WatchedReducer& reducer : all_) {
    if (!reducer.is(nullptr)) reducer.tell_unfinished(capture);
  }
}

WatchedReducer* WatchedReducers::find(const void* reducer) noexcept {
  for (std::size_t i = 0; i < used_.load(std::memory_order_acquire); ++i) {
    if (all_[i].is(reducer)) return &all_[i];
  }
  return nullptr;
}

WatchedReducers& watched_reducers() noexcept {
  static auto* const leaked = new WatchedReducers;
  return *leaked;
}

}  // namespace ddpscope
