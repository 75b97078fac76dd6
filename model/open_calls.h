#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "model/call_log.h"
#include "model/hot_code.h"

namespace ddpscope {

/// The last collectives of this process: which are under way, and who waits in them. A call is
/// found by its `Work`, whose address is no reference: another call may get it later, and is then
/// what is meant. Nothing here takes a lock.
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
  DDPSCOPE_HOT std::uint64_t issued(std::uint64_t place, const CallRecord& record);
  /// The program waits in the call itself, from its issue to here. Whether the call failed, if a
  /// thread of the backend told its end before anybody knew of which call it was.
  DDPSCOPE_HOT std::optional<bool> returned(std::uint64_t number, const void* work);
  /// The call has ended, whoever tells it. The call that `work` is of.
  DDPSCOPE_HOT std::optional<Call> ended(const void* work);
  std::optional<Call> ended(std::uint64_t number);
  /// The same, told by the backend.
  DDPSCOPE_HOT std::optional<Call> backend_ended(const void* work, bool failed);
  /// The call that `work` is of.
  std::optional<Call> of(const void* work) { return read(find(work)); }
  /// Returns the number of the call, 0 where there is none; `wait_ended` takes it.
  DDPSCOPE_HOT std::uint64_t wait_began(const void* work);
  /// Who waited for it knows that the call has ended.
  DDPSCOPE_HOT std::optional<Call> wait_ended(std::uint64_t number);

  // For the thread that watches:

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
  static constexpr std::uint64_t kEnds = 16;
  using RecordWords = std::array<std::uint64_t, sizeof(CallRecord) / sizeof(std::uint64_t)>;

  /// Calls come and go without a lock: a thread of the backend that ends a call must not wait for
  /// the one that issues the next. One word says which call is held, and changes in one piece.
  struct Slot {
    /// Number of the call, 0 for none; threads that wait in it; whether it ended.
    std::atomic<std::uint64_t> state = 0;
    std::atomic<std::uint64_t> place = 0;
    std::array<std::atomic<std::uint64_t>, std::tuple_size_v<RecordWords>> record{};
    std::atomic<std::int64_t> issued_ns = 0;
    std::atomic<std::uint64_t> ends_before = 0;  ///< that backends had told when it was issued
    std::atomic<const void*> work = nullptr;

    DDPSCOPE_HOT void fill(std::uint64_t number, std::uint64_t new_place, const CallRecord& call,
                           std::uint64_t ends);
    /// Nothing where there is no call, or where it gives way to another right now.
    DDPSCOPE_HOT std::optional<Call> read() const;
  };
  /// An end that the backend told: which one, the address of the `Work`, and 1 where it failed.
  struct End {
    std::atomic<std::uint64_t> number = 0;
    std::atomic<std::uintptr_t> work = 0;
  };
  /// A slot and the call that is meant in it.
  struct Found {
    Slot* slot = nullptr;
    std::uint64_t number = 0;
  };
  DDPSCOPE_HOT Found find(const void* work);
  DDPSCOPE_HOT Found find(std::uint64_t number);
  DDPSCOPE_HOT std::optional<Call> end(const Found& found, int waiting = 0);
  /// Sets `bits` and changes the number of threads that wait. The word before; nothing where the
  /// call has given way.
  DDPSCOPE_HOT static std::optional<std::uint64_t> change(const Found& found, std::uint64_t bits,
                                                          int waiting);
  DDPSCOPE_HOT static std::optional<Call> read(const Found& found);

  std::array<Slot, kCalls> slots_;
  std::array<End, kEnds> ends_;
  std::atomic<std::uint64_t> end_count_ = 0;
  std::array<std::atomic<std::int64_t>, kTimes> times_ns_{};
  std::atomic<std::uint64_t> issued_ = 0;
  std::atomic<std::uint64_t> ended_ = 0;
};

DDPSCOPE_HOT OpenCalls& open_calls() noexcept;

}  // namespace ddpscope
