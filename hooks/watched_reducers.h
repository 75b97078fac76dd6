#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace ddpscope {

class Capture;

/// One `c10d::Reducer`, known from the calls of its functions alone.
class WatchedReducer {
 public:
  using WeakTensors = std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>>;

  /// What its constructor was given.
  struct Plan {
    WeakTensors parameters;
    std::int64_t ranks = 1;
    bool bucket_views = false;
  };

  bool is(const void* reducer) const noexcept {
    return self_.load(std::memory_order_acquire) == reducer;
  }
  void begin(const void* reducer, std::uint64_t number, Plan plan);
  void end() noexcept { self_.store(nullptr, std::memory_order_release); }

  void becomes_static() noexcept { is_static_.store(true, std::memory_order_relaxed); }
  /// `prepare_for_backward`.
  void begin_pass() noexcept;
  /// A parameter's gradient came, on a thread of the engine.
  void reached() noexcept;
  /// It will be part of the average: each parameter on one thread.
  void ready(std::size_t index) noexcept;

  /// The averages of the pass are there, or the program gave it up.
  void tell_finished(Capture* capture);
  /// The next pass is about to begin.
  void tell_next(Capture& capture);
  /// A backward has ended; says so where it brought gradients that wait for others.
  void tell_unfinished(Capture& capture);

 private:
  bool waits_for(std::size_t index) noexcept;
  bool is_incomplete() noexcept;

  std::atomic<const void*> self_{nullptr};  ///< null: free
  std::uint64_t number_ = 0;
  Plan plan_;
  std::vector<std::uint32_t> ready_in_;  ///< the last pass in which each was
  std::atomic<std::uint32_t> pass_{0};
  std::atomic<std::uint32_t> marked_in_{0};  ///< the last pass in which any was
  std::atomic<bool> expects_{false};
  std::atomic<bool> was_reached_{false};
  std::atomic<bool> is_static_{false};
  std::atomic<bool> is_told_{false};  ///< that the pass is unfinished
  std::atomic<bool> built_{false};    ///< this was told
};

/// Those that exist, up to a number that no program reaches.
class WatchedReducers {
 public:
  void born(const void* reducer, WatchedReducer::Plan plan);
  void died(const void* reducer) noexcept;
  /// Null: not one of them. Called for one that lives.
  WatchedReducer* find(const void* reducer) noexcept;
  void tell_unfinished(Capture& capture);

 private:
  std::mutex mutex_;  // of births and deaths
  std::uint64_t births_ = 0;
  std::atomic<std::size_t> used_{0};
  std::array<WatchedReducer, 16> all_;
};

WatchedReducers& watched_reducers() noexcept;

}  // namespace ddpscope
