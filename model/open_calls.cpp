#include "model/open_calls.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "model/clock.h"
#include "model/hot_code.h"

namespace ddpscope {
namespace {
using std::memory_order_acquire;
using std::memory_order_relaxed;
using std::memory_order_release;

// The word of a slot: number of the call, threads that wait in it, whether it ended.
constexpr std::uint64_t kEnded = 1;
constexpr std::uint64_t kFilling = kEnded;  // of no call
constexpr std::uint64_t kOneWaiting = 2;
constexpr int kMostWaiting = (1 << 16) - 1;
constexpr int kNumberShift = 17;
constexpr std::uintptr_t kFailed = 1;  // beside the address of a `Work`

std::uint64_t number_in(std::uint64_t word) { return word >> kNumberShift; }
int waiting_in(std::uint64_t word) { return static_cast<int>(word / kOneWaiting) & kMostWaiting; }

// Nobody is told when a message has left.
bool tells_its_end(const OpenCalls::Call& call) {
  return call.record.kind != CollectiveKind::kSend && call.record.kind != CollectiveKind::kReceive;
}
}  // namespace

// What follows the first store is released: who reads any of it sees the call gone as well.
void OpenCalls::Slot::fill(std::uint64_t number, std::uint64_t new_place, const CallRecord& call,
                           std::uint64_t ends) {
  // Another thread is at it, 256 calls behind or ahead: this call is not watched.
  if (state.exchange(kFilling, std::memory_order_acq_rel) == kFilling) return;
  place.store(new_place, memory_order_release);
  const auto words = std::bit_cast<RecordWords>(call);
  for (std::size_t i = 0; i < words.size(); ++i) record[i].store(words[i], memory_order_release);
  issued_ns.store(steady_ns(), memory_order_release);
  ends_before.store(ends, memory_order_release);
  work.store(nullptr, memory_order_release);
  state.store(number << kNumberShift | kOneWaiting, memory_order_release);
}

std::optional<OpenCalls::Call> OpenCalls::Slot::read() const {
  const std::uint64_t word = state.load(memory_order_acquire);
  Call call{.number = number_in(word)};
  if (call.number == 0) return std::nullopt;
  call.place = place.load(memory_order_acquire);
  RecordWords words;
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = record[i].load(memory_order_acquire);
  call.record = std::bit_cast<CallRecord>(words);
  call.issued_ns = issued_ns.load(memory_order_acquire);
  call.waiting = waiting_in(word);
  call.ended = (word & kEnded) != 0;
  if (number_in(state.load(memory_order_relaxed)) != call.number) return std::nullopt;
  return call;
}

std::uint64_t OpenCalls::issued(std::uint64_t place, const CallRecord& record) {
  const std::uint64_t before = issued_.fetch_add(1, memory_order_release);
  slots_[before % kCalls].fill(before + 1, place, record, end_count_.load());
  fetch_early(&slots_[(before + 1) % kCalls], sizeof(Slot));
  return before + 1;
}

OpenCalls::Found OpenCalls::find(const void* work) {
  // A call is waited for soon after it was issued.
  const std::uint64_t issued = issued_.load(memory_order_acquire);
  const std::uint64_t held = std::min<std::uint64_t>(issued, kCalls);
  for (std::uint64_t back = 1; work != nullptr && back <= held; ++back) {
    Slot& slot = slots_[(issued - back) % kCalls];
    const std::uint64_t number = number_in(slot.state.load(memory_order_acquire));
    if (number != 0 && slot.work.load() == work) return {&slot, number};
  }
  return {};
}

OpenCalls::Found OpenCalls::find(std::uint64_t number) {
  if (number == 0) return {};
  Slot& slot = slots_[(number - 1) % kCalls];
  const bool is_held = number_in(slot.state.load(memory_order_acquire)) == number;
  return is_held ? Found{&slot, number} : Found{};
}

std::optional<std::uint64_t> OpenCalls::change(const Found& found, std::uint64_t bits,
                                               int waiting) {
  if (found.slot == nullptr) return std::nullopt;
  std::uint64_t before = found.slot->state.load(memory_order_acquire);
  while (number_in(before) == found.number) {
    const bool fits = waiting_in(before) + waiting >= 0 && waiting_in(before) < kMostWaiting;
    const std::uint64_t after =
        (before | bits) + static_cast<std::uint64_t>(fits ? waiting : 0) * kOneWaiting;
    if (found.slot->state.compare_exchange_weak(before, after, std::memory_order_acq_rel,
                                                memory_order_acquire)) {
      return before;
    }
  }
  return std::nullopt;
}

std::optional<OpenCalls::Call> OpenCalls::read(const Found& found) {
  if (found.slot == nullptr) return std::nullopt;
  std::optional<Call> call = found.slot->read();
  return call && call->number == found.number ? call : std::nullopt;
}

std::optional<OpenCalls::Call> OpenCalls::end(const Found& found, int waiting) {
  const std::optional<Call> call = read(found);
  const std::optional<std::uint64_t> before = change(found, kEnded, waiting);
  if (!call || !before) return std::nullopt;
  if ((*before & kEnded) == 0) {
    const std::uint64_t earlier = ended_.fetch_add(1, memory_order_release);
    times_ns_[earlier % kTimes].store(steady_ns() - call->issued_ns, memory_order_relaxed);
  }
  return call;
}

// Here the call gets its `Work` and then looks for an end; there the end is noted and then looked
// for its call: one of the two sees the other. Ends before the issue are of another `Work` that was
// at this address.
std::optional<bool> OpenCalls::returned(std::uint64_t number, const void* work) {
  const Found found = find(number);
  if (found.slot == nullptr) return std::nullopt;
  found.slot->work.store(work);
  change(found, 0, -1);
  const auto address = reinterpret_cast<std::uintptr_t>(work);
  const std::uint64_t before = found.slot->ends_before.load(memory_order_acquire);
  const std::uint64_t last = end_count_.load();
  const std::uint64_t since = work == nullptr ? 0 : std::min(last - before, kEnds);
  for (std::uint64_t told = last; told > last - since; --told) {
    const End& end = ends_[told % kEnds];
    if (end.number.load() != told) continue;
    const std::uintptr_t ended = end.work.load();
    if ((ended & ~kFailed) == address) return (ended & kFailed) != 0;
  }
  return std::nullopt;
}

std::optional<OpenCalls::Call> OpenCalls::backend_ended(const void* work, bool failed) {
  const std::uint64_t number = end_count_.fetch_add(1) + 1;
  End& end = ends_[number % kEnds];
  end.work.store(0, memory_order_relaxed);  // who sees the number no longer sees an older `Work`
  end.number.store(number);
  end.work.store(reinterpret_cast<std::uintptr_t>(work) | (failed ? kFailed : 0));
  return ended(work);
}

std::optional<OpenCalls::Call> OpenCalls::ended(const void* work) { return end(find(work)); }

std::optional<OpenCalls::Call> OpenCalls::ended(std::uint64_t number) { return end(find(number)); }

std::uint64_t OpenCalls::wait_began(const void* work) {
  const Found found = find(work);
  return change(found, 0, 1) ? found.number : 0;
}

std::optional<OpenCalls::Call> OpenCalls::wait_ended(std::uint64_t number) {
  return end(find(number), -1);
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
