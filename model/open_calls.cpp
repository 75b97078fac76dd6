#include "model/open_calls.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <vector>

namespace ddpscope {
namespace {
// Nobody is told when a message has left.
bool tells_its_end(const OpenCalls::Call& call) {
  return call.record.kind != CollectiveKind::kSend && call.record.kind != CollectiveKind::kReceive;
}
}  // namespace

std::uint64_t OpenCalls::issued(std::uint64_t place, const CallRecord& record) {
  const std::int64_t now = steady_ns();
  const std::lock_guard lock(mutex_);
  calls_[issued_ % kCalls] = {
      .number = issued_ + 1, .place = place, .record = record, .issued_ns = now, .waiting = 1};
  return ++issued_;
}

OpenCalls::Call* OpenCalls::find(const void* work) {
  // A call is waited for soon after it was issued.
  const std::uint64_t held = std::min<std::uint64_t>(issued_, kCalls);
  for (std::uint64_t back = 1; work != nullptr && back <= held; ++back) {
    Call& call = calls_[(issued_ - back) % kCalls];
    if (call.work == work) return &call;
  }
  return nullptr;
}

OpenCalls::Call* OpenCalls::find(std::uint64_t number) {
  if (number == 0) return nullptr;
  Call& call = calls_[(number - 1) % kCalls];
  return call.number == number ? &call : nullptr;
}

std::optional<OpenCalls::Call> OpenCalls::end(Call* call) {
  if (call == nullptr) return std::nullopt;
  if (!std::exchange(call->ended, true)) {
    times_ns_[ended_++ % kTimes] = steady_ns() - call->issued_ns;
  }
  return *call;
}

void OpenCalls::returned(std::uint64_t number, const void* work) {
  const std::lock_guard lock(mutex_);
  Call* const call = find(number);
  if (call == nullptr) return;
  --call->waiting;
  call->work = work;
}

std::optional<OpenCalls::Call> OpenCalls::ended(const void* work) {
  const std::lock_guard lock(mutex_);
  return end(find(work));
}

std::optional<OpenCalls::Call> OpenCalls::ended(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  return end(find(number));
}

std::optional<OpenCalls::Call> OpenCalls::wait_began(const void* work) {
  const std::lock_guard lock(mutex_);
  Call* const call = find(work);
  if (call == nullptr) return std::nullopt;
  ++call->waiting;
  return *call;
}

void OpenCalls::wait_ended(const void* work) {
  const std::lock_guard lock(mutex_);
  if (Call* const call = find(work)) call->waiting = std::max(0, call->waiting - 1);
}

std::optional<OpenCalls::Call> OpenCalls::oldest() {
  const std::lock_guard lock(mutex_);
  const Call* oldest = nullptr;
  for (const Call& call : calls_) {
    if (call.number == 0 || call.ended || (call.waiting == 0 && !tells_its_end(call))) continue;
    if (oldest == nullptr || call.number < oldest->number) oldest = &call;
  }
  return oldest == nullptr ? std::nullopt : std::optional(*oldest);
}

std::int64_t OpenCalls::median_ns() {
  const std::lock_guard lock(mutex_);
  const std::size_t count = std::min<std::uint64_t>(ended_, kTimes);
  if (count == 0) return 0;
  std::vector<std::int64_t> times(times_ns_.begin(),
                                  times_ns_.begin() + static_cast<std::ptrdiff_t>(count));
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(count / 2);
  std::ranges::nth_element(times, middle);
  return *middle;
}

std::uint64_t OpenCalls::progress() {
  const std::lock_guard lock(mutex_);
  return issued_ + ended_;
}

OpenCalls& open_calls() noexcept {
  static auto* const leaked = new OpenCalls;
  return *leaked;
}

std::int64_t steady_ns() noexcept {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

}  // namespace ddpscope
