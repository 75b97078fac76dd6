#include "model/open_calls.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "model/clock.h"

namespace ddpscope {
namespace {
using std::memory_order_acquire;
using std::memory_order_relaxed;
using std::memory_order_release;

// Nobody is told when a message has left.
bool tells_its_end(const OpenCalls::Call& call) {
  return call.record.kind != CollectiveKind::kSend && call.record.kind != CollectiveKind::kReceive;
}
}  // namespace

// What follows the 0 is released: who reads any of it sees the number gone as well.
void OpenCalls::Slot::fill(std::uint64_t new_number, std::uint64_t new_place,
                           const CallRecord& call) {
  number.store(0, memory_order_relaxed);
  place.store(new_place, memory_order_release);
  const auto words = std::bit_cast<RecordWords>(call);
  for (std::size_t i = 0; i < words.size(); ++i) record[i].store(words[i], memory_order_release);
  issued_ns.store(steady_ns(), memory_order_release);
  waiting.store(1, memory_order_release);
  ended.store(false, memory_order_release);
  work = nullptr;
  number.store(new_number, memory_order_release);
}

std::optional<OpenCalls::Call> OpenCalls::Slot::read() const {
  Call call{.number = number.load(memory_order_acquire)};
  if (call.number == 0) return std::nullopt;
  call.place = place.load(memory_order_acquire);
  RecordWords words;
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = record[i].load(memory_order_acquire);
  call.record = std::bit_cast<CallRecord>(words);
  call.issued_ns = issued_ns.load(memory_order_acquire);
  call.waiting = waiting.load(memory_order_acquire);
  call.ended = ended.load(memory_order_acquire);
  if (number.load(memory_order_relaxed) != call.number) return std::nullopt;
  return call;
}

std::uint64_t OpenCalls::issued(std::uint64_t place, const CallRecord& record) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t before = issued_.load(memory_order_relaxed);
  slots_[before % kCalls].fill(before + 1, place, record);
  issued_.store(before + 1, memory_order_release);
  return before + 1;
}

OpenCalls::Slot* OpenCalls::find(const void* work) {
  // A call is waited for soon after it was issued.
  const std::uint64_t issued = issued_.load(memory_order_relaxed);
  const std::uint64_t held = std::min<std::uint64_t>(issued, kCalls);
  for (std::uint64_t back = 1; work != nullptr && back <= held; ++back) {
    Slot& slot = slots_[(issued - back) % kCalls];
    if (slot.work == work) return &slot;
  }
  return nullptr;
}

OpenCalls::Slot* OpenCalls::find(std::uint64_t number) {
  if (number == 0) return nullptr;
  Slot& slot = slots_[(number - 1) % kCalls];
  return slot.number.load(memory_order_relaxed) == number ? &slot : nullptr;
}

std::optional<OpenCalls::Call> OpenCalls::end(Slot* slot) {
  if (slot == nullptr) return std::nullopt;
  if (!slot->ended.exchange(true, memory_order_relaxed)) {
    const std::uint64_t before = ended_.load(memory_order_relaxed);
    times_ns_[before % kTimes].store(steady_ns() - slot->issued_ns.load(memory_order_relaxed),
                                     memory_order_relaxed);
    ended_.store(before + 1, memory_order_release);
  }
  return slot->read();
}

void OpenCalls::returned(std::uint64_t number, const void* work) {
  const std::lock_guard lock(mutex_);
  Slot* const slot = find(number);
  if (slot == nullptr) return;
  slot->waiting.fetch_sub(1, memory_order_relaxed);
  slot->work = work;
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
  Slot* const slot = find(work);
  if (slot == nullptr) return std::nullopt;
  slot->waiting.fetch_add(1, memory_order_relaxed);
  return slot->read();
}

void OpenCalls::wait_ended(const void* work) {
  const std::lock_guard lock(mutex_);
  Slot* const slot = find(work);
  if (slot != nullptr && slot->waiting.load(memory_order_relaxed) > 0) {
    slot->waiting.fetch_sub(1, memory_order_relaxed);
  }
}

std::optional<OpenCalls::Call> OpenCalls::oldest() const {
  std::optional<Call> oldest;
  for (const Slot& slot : slots_) {
    const std::optional<Call> call = slot.read();
    if (!call || call->ended || (call->waiting == 0 && !tells_its_end(*call))) continue;
    if (!oldest || call->number < oldest->number) oldest = call;
  }
  return oldest;
}

std::int64_t OpenCalls::median_ns() const {
  const std::size_t count = std::min<std::uint64_t>(ended_.load(memory_order_acquire), kTimes);
  if (count == 0) return 0;
  std::array<std::int64_t, kTimes> times;
  for (std::size_t i = 0; i < count; ++i) times[i] = times_ns_[i].load(memory_order_relaxed);
  auto* const middle = times.begin() + count / 2;
  std::nth_element(times.begin(), middle, times.begin() + count);
  return *middle;
}

std::uint64_t OpenCalls::progress() const {
  return issued_.load(memory_order_acquire) + ended_.load(memory_order_acquire);
}

OpenCalls& open_calls() noexcept {
  static auto* const leaked = new OpenCalls;
  return *leaked;
}

}  // namespace ddpscope
