#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>

#include "model/call_log.h"

namespace ddpscope {

/// The last collectives of this process: which are under way, and who waits in them. A call is
/// found by its `Work`, whose address is no reference: another call may get it later, and is then
/// what is meant.
class OpenCalls {
 public:
  struct Call {
    std::uint64_t number = 0;  ///< 1-based, of all calls
    std::uint64_t place = 0;   ///< in the call log
    CallRecord record;
    std::int64_t issued_ns = 0;  ///< of the steady clock
    int waiting = 0;             ///< threads
    bool ended = false;
  };

  /// Returns the number of the call.
  std::uint64_t issued(std::uint64_t place, const CallRecord& record);
  /// The program waits in the call itself, from its issue to here.
  void returned(std::uint64_t number, const void* work);
  /// The call has ended, whoever tells it. The call that `work` is of.
  std::optional<Call> ended(const void* work);
  std::optional<Call> ended(std::uint64_t number);
  std::optional<Call> wait_began(const void* work);
  void wait_ended(const void* work);

  // For the thread that watches: these take no lock and hold up no call.

  /// The call that is under way for the longest time, of those that can tell when they end or that
  /// somebody waits in.
  std::optional<Call> oldest() const;
  /// Of the time that the last calls took, in ns; 0 where none has ended.
  std::int64_t median_ns() const;
  /// Moves whenever a call is issued or ends.
  std::uint64_t progress() const;

 private:
  static constexpr std::size_t kCalls = 256;
  static constexpr std::size_t kTimes = 64;
  using RecordWords = std::array<std::uint64_t, sizeof(CallRecord) / sizeof(std::uint64_t)>;

  /// Written under the lock, read without.
  struct Slot {
    std::atomic<std::uint64_t> number = 0;  ///< 0: none, or about to be another
    std::atomic<std::uint64_t> place = 0;
    std::array<std::atomic<std::uint64_t>, std::tuple_size_v<RecordWords>> record{};
    std::atomic<std::int64_t> issued_ns = 0;
    std::atomic<int> waiting = 0;
    std::atomic<bool> ended = false;
    const void* work = nullptr;  // under the lock only

    void fill(std::uint64_t new_number, std::uint64_t new_place, const CallRecord& call);
    /// Nothing where there is no call, or where it gives way to another right now.
    std::optional<Call> read() const;
  };
  Slot* find(const void* work);
  Slot* find(std::uint64_t number);
  std::optional<Call> end(Slot* slot);

  std::mutex mutex_;  // among the threads that call
  std::array<Slot, kCalls> slots_;
  std::array<std::atomic<std::int64_t>, kTimes> times_ns_{};
  std::atomic<std::uint64_t> issued_ = 0;
  std::atomic<std::uint64_t> ended_ = 0;
};

OpenCalls& open_calls() noexcept;

}  // namespace ddpscope
