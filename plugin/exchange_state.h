#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "plugin/store_exchange.h"

namespace ddpscope {

/// What the exchange and its thread share.
struct StoreExchange::State {
  mutable std::mutex mutex;  // guards what is no atomic
  std::condition_variable wake;
  std::condition_variable ended;
  Options options;
  bool has_started = false;
  bool stops = false;
  bool has_ended = false;
  std::string note;
  bool told = false;
  std::map<std::int64_t, std::shared_ptr<const FileDescriptor>> images;
  std::atomic<std::int64_t> call_since_ns{0};  // 0: no call is in progress
  std::atomic<bool> left_behind{false};
  std::atomic<bool> is_heard{false};

  void say(const std::string& text) {
    const std::lock_guard lock(mutex);
    if (note.empty()) note = text;
  }
  /// False when the exchange is to end.
  bool pause(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex);
    wake.wait_for(lock, time, [this] { return stops; });
    return !stops;
  }
  bool has_to_end() const {
    const std::lock_guard lock(mutex);
    return stops;
  }
  bool is_live() const { return has_started && !stops && !has_ended && !left_behind; }
};

}  // namespace ddpscope
