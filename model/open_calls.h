#pragma once

#include <array>
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
    std::uint64_t number = 0;  ///< 1-based, of all calls; 0: none
    std::uint64_t place = 0;   ///< in the call log
    CallRecord record;
    const void* work = nullptr;
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

  /// The call that is under way for the longest time, of those that can tell when they end or that
  /// somebody waits in.
  std::optional<Call> oldest();
  /// Of the time that the last calls took, in ns; 0 where none has ended.
  std::int64_t median_ns();
  /// Moves whenever a call is issued or ends.
  std::uint64_t progress();

 private:
  static constexpr std::size_t kCalls = 256;
  static constexpr std::size_t kTimes = 64;
  Call* find(const void* work);
  Call* find(std::uint64_t number);
  std::optional<Call> end(Call* call);

  std::mutex mutex_;
  std::array<Call, kCalls> calls_{};
  std::array<std::int64_t, kTimes> times_ns_{};
  std::uint64_t issued_ = 0;
  std::uint64_t ended_ = 0;
};

OpenCalls& open_calls() noexcept;

std::int64_t steady_ns() noexcept;

}  // namespace ddpscope
