#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

#include "exchange/rank_ring.h"
#include "plugin/store_exchange.h"
#include "tests/support/catch.h"
#include "tests/support/rank_rings.h"

namespace ddpscope::test {

/// A store of threads.
class Shelf {
 public:
  ~Shelf() { release(); }

  void fail(const std::string& why) {
    const std::lock_guard lock(mutex_);
    fault_ = why;
  }
  /// Calls do not return from now on.
  void block() {
    const std::lock_guard lock(mutex_);
    blocks_ = true;
  }
  void release() {
    const std::lock_guard lock(mutex_);
    blocks_ = false;
    wake_.notify_all();
  }
  bool is_blocking() {
    const std::lock_guard lock(mutex_);
    return waiting_ > 0;
  }
  std::size_t keys() {
    const std::lock_guard lock(mutex_);
    return values_.size();
  }
  std::size_t most_keys() {
    const std::lock_guard lock(mutex_);
    return most_keys_;
  }
  int sets() {
    const std::lock_guard lock(mutex_);
    return sets_;
  }

  template <class Work>
  auto call(Work&& work) {
    std::unique_lock lock(mutex_);
    ++waiting_;
    wake_.wait(lock, [this] { return !blocks_; });
    --waiting_;
    if (!fault_.empty()) throw std::runtime_error(fault_);
    return work(values_);
  }
  void set(const std::string& key, const std::string& bytes) {
    call([&](auto& values) {
      values[key] = bytes;
      most_keys_ = std::max(most_keys_, values.size());
      ++sets_;
    });
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::map<std::string, std::string> values_;
  std::string fault_;
  bool blocks_ = false;
  int waiting_ = 0;
  int sets_ = 0;
  std::size_t most_keys_ = 0;
};

class OnShelf final : public SharedStore {
 public:
  explicit OnShelf(std::shared_ptr<Shelf> shelf) : shelf_(std::move(shelf)) {}
  bool has(const std::string& key) override {
    return shelf_->call([&](auto& values) { return values.contains(key); });
  }
  std::string get(const std::string& key) override {
    return shelf_->call([&](auto& values) { return values.at(key); });
  }
  void set(const std::string& key, const std::string& bytes) override { shelf_->set(key, bytes); }
  void remove(const std::string& key) override {
    shelf_->call([&](auto& values) { values.erase(key); });
  }

 private:
  std::shared_ptr<Shelf> shelf_;
};

/// One rank with its ring and its exchange.
class Member {
 public:
  Member(std::shared_ptr<Shelf> shelf, std::int64_t rank, const std::string& dir,
         const std::string& run_id = "r1", std::int64_t world_size = 2)
      : ring(dir, rank, world_size, run_id), shelf_(std::move(shelf)) {
    REQUIRE(ring.problem.empty());
    options.rank = rank;
    options.world_size = world_size;
    options.run_id = run_id;
    options.dir = dir;
    options.every = 4;
  }

  void start() {
    exchange.start(options, [shelf = shelf_] { return std::make_unique<OnShelf>(shelf); });
  }
  void train_to(std::int64_t step, double rate) {
    while (done_ < step) {
      ring.at_step(static_cast<std::int32_t>(++done_));
      ring.reduce("fc1.weight");
      ring.digest({.step = done_,
                   .optimizers = rate == 0.1 ? 1u : 2u,
                   .learning_rate = rate,
                   .optimizer_steps = static_cast<std::int32_t>(done_),
                   .groups = 1,
                   .averages = true});
    }
    ring.beat("fc1");
  }

  StoreExchange::Options options;
  TestRank ring;
  StoreExchange exchange;

 private:
  std::shared_ptr<Shelf> shelf_;
  std::int64_t done_ = 0;
};

template <class Condition>
bool in_time(Condition&& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

/// In what has arrived; -1 where nothing has.
inline std::int64_t last_step_of(const Member& member, std::int64_t rank = 1) {
  RingReader ring;
  const auto images = member.exchange.images();
  const auto image = std::ranges::find(images, rank, &RingImage::rank);
  if (image == images.end() || !ring.open(image->file).empty()) return -1;
  return ring.digest_count() == 0 ? 0 : ring.digest(ring.digest_count() - 1)->step;
}

inline double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace ddpscope::test
