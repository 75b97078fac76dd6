#include "hooks/device_waits.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <span>
#include <utility>

#include "hooks/autograd_watch.h"
#include "hooks/capture.h"
#include "hooks/doing.h"
#include "hooks/step_wait.h"

namespace ddpscope {
namespace {
constexpr std::size_t kPlaces = 64;  // of waits that are told apart in one step
constexpr double kBlockedMs = 0.05;  // to ask for what other ranks have done already takes less

constexpr auto kFunctions = static_cast<std::size_t>(WaitIn::kWork) + 1;

struct Waited {
  WaitIn function = WaitIn::kItem;
  ModuleId module = 0;
  StackId stack = 0;
  std::int64_t count = 0;
  std::uint64_t ticks = 0;

  bool is_at(const Waited& other) const {
    return function == other.function && module == other.module && stack == other.stack;
  }
};

/// The waits of the step in progress, on all threads.
class WaitTable {
 public:
  void add(const Waited& one) {
    const std::lock_guard lock(mutex_);
    Waited& row = row_of(one);
    row.count += one.count;
    row.ticks += one.ticks;
  }

  template <class Visit>
  void take(Visit&& visit) {
    std::array<Waited, kRows> rows;
    std::size_t used = 0;
    {
      const std::lock_guard lock(mutex_);
      used = std::exchange(used_, 0);
      std::ranges::copy(std::span(rows_).first(used), rows.begin());
    }
    for (const Waited& row : std::span(rows).first(used)) visit(row);
  }

 private:
  static constexpr std::size_t kRows = kPlaces + kFunctions;

  // Past so many places those of one function are one.
  Waited& row_of(Waited one) {
    if (Waited* known = find(one)) return *known;
    if (used_ >= kPlaces) {
      one.module = one.stack = 0;
      if (Waited* known = find(one)) return *known;
    }
    rows_[used_] = {.function = one.function, .module = one.module, .stack = one.stack};
    return rows_[used_++];
  }
  Waited* find(const Waited& one) {
    const auto used = std::span(rows_).first(used_);
    const auto known =
        std::ranges::find_if(used, [&](const Waited& row) { return row.is_at(one); });
    return known == used.end() ? nullptr : &*known;
  }

  std::mutex mutex_;
  std::array<Waited, kRows> rows_{};
  std::size_t used_ = 0;
};

WaitTable& waits() {
  static auto* const leaked = new WaitTable;
  return *leaked;
}
}  // namespace

void DeviceWaits::add(WaitIn function, std::uint64_t spent_ticks) noexcept {
  if (function != WaitIn::kWork) StepWait::add_device_wait(spent_ticks);  // a call tells its own
  if (Capture::watch() == Watch::kNothing) return;
  as_guest("wait", [&](Capture& capture) {
    if (here_.place == Place::kOutside && !inside_backward()) return;
    if (function == WaitIn::kWork && capture.ms_of(spent_ticks) < kBlockedMs) return;
    const Doing by = doing_now(capture);
    waits().add({.function = function,
                 .module = by.module,
                 .stack = by.stack,
                 .count = 1,
                 .ticks = spent_ticks});
  });
}

void DeviceWaits::step_ended(Capture& capture, const Stamp& at) {
  TrainingThread& here = here_;
  here.place = Place::kBetween;
  const std::int64_t host_reads = std::exchange(here.host_reads, 0);
  if (!is_device_used() && host_reads == 0) return;
  const double now_ms = capture.spent().wall_ms;
  const double before_ms = std::exchange(here.step_ended_ms, now_ms);
  if (Capture::watch() == Watch::kNothing) return;
  DeviceWaitsEvent event{.at = at,
                         .step_ms = before_ms > 0 ? now_ms - before_ms : 0,
                         .host_reads = host_reads,
                         .waits = {}};
  waits().take([&](const Waited& row) {
    event.waits.push_back({.function = row.function,
                           .module = row.module,
                           .stack = row.stack,
                           .count = row.count,
                           .waited_ms = capture.ms_of(row.ticks)});
  });
  capture.put_large(std::move(event));
}

}  // namespace ddpscope
