// Where the worker works: on a thread of its own, or in turns on the training thread.
#include <cstdio>

#include "model/clock.h"
#include "plugin/background_thread.h"
#include "plugin/held_signals.h"
#include "plugin/worker.h"

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif

namespace ddpscope {
namespace {
// In a program that takes longer from one place for a turn to the next, a thread costs little.
constexpr std::int64_t kLongestWaitNs = 1'000'000'000;
constexpr std::uint64_t kManyEvents = kQueueEvents / 4;
// In steps so short that judging takes a share of them, it does so beside them.
constexpr double kLargestShare = 0.04;
constexpr std::int64_t kFirstTurns = 8;  // caches are cold
constexpr std::int64_t kWeighedTurns = 40;

bool has_one_thread() noexcept {
#if __has_include(<sys/single_threaded.h>)
  return __libc_single_threaded != 0;
#else
  return false;
#endif
}
}  // namespace

bool Worker::starts_in_turns() const {
  return options_.takes_turns && options_.run.world_size == 1 && metrics_.path().empty() &&
         has_one_thread();
}

void Worker::start_thread() noexcept {
  const HeldSignals held;
  try {
    thread_ = std::thread([this] {
      become_background("ddpscope");
      loop();
    });
  } catch (...) {  // this process may have no more threads
    takes_turns_ = true;
  }
}

bool Worker::end_turns() noexcept {
  if (takes_turns_.exchange(false)) start_thread();
  return !takes_turns_.load();
}

void Worker::put(Event&& event) noexcept {
  queue_.put(std::move(event));
  if (!takes_turns_.load(std::memory_order_relaxed)) return;
  const std::int64_t now_ns = steady_ns();
  std::int64_t since_ns = 0;
  if (waits_since_ns_.compare_exchange_strong(since_ns, now_ns)) return;
  const bool waits_long = now_ns - since_ns > kLongestWaitNs;
  if (waits_long || queue_.put_count() > queue_.taken_count() + kManyEvents) end_turns();
}

void Worker::take_turn() noexcept {
  if (!takes_turns_.load(std::memory_order_relaxed)) return;
  if (queue_.put_count() != queue_.taken_count()) judge_here();
  if (wants_thread_.load(std::memory_order_relaxed) || !has_one_thread()) end_turns();
}

bool TurnCost::is_high(std::int64_t taken_ns, std::int64_t now_ns) noexcept {
  if (++turns_ <= kFirstTurns) {
    since_ns_ = now_ns;
    return false;
  }
  taken_ns_ += taken_ns;
  const auto all_ns = static_cast<double>(now_ns - since_ns_);
  return turns_ >= kWeighedTurns && static_cast<double>(taken_ns_) > kLargestShare * all_ns;
}

// A handler of a signal may come here while its thread judges.
void Worker::judge_here() noexcept {
  if (has_turn_.exchange(true)) return;
  waits_since_ns_.store(0, std::memory_order_relaxed);
  const HeldSignals held;
  const std::int64_t begin_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  while (judge_batch()) {
  }
  const std::int64_t taken_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns;
  if (turn_cost_.is_high(taken_ns, steady_ns())) wants_thread_ = true;
  has_turn_.store(false);
}

// Who reads our lines may be slow: a thread of the program does not wait for it.
void Worker::say(const std::string& text) {
  if (!takes_turns_.load()) {
    std::fputs(text.c_str(), stderr);
    return;
  }
  const std::lock_guard lock(wake_mutex_);
  unsaid_ += text;
  wants_thread_ = true;
}

bool Worker::has_unsaid() {
  const std::lock_guard lock(wake_mutex_);
  return !unsaid_.empty();
}

void Worker::say_what_waits() {
  std::string text;
  {
    const std::lock_guard lock(wake_mutex_);
    text = unsaid_;
  }
  std::fputs(text.c_str(), stderr);
  const std::lock_guard lock(wake_mutex_);
  unsaid_.erase(0, text.size());
  drained_.notify_all();
}

}  // namespace ddpscope
