#include "hooks/step_wait.h"

#include <sys/resource.h>

#include <algorithm>

#include "hooks/capture.h"
#include "hooks/loader_watch.h"

namespace ddpscope {
namespace {
constexpr double kLongMs = 500;

/// How often a thread left its core since it began, and how long it had one.
struct ThreadTurns {
  std::int64_t waits = 0;        ///< left to wait
  std::int64_t preemptions = 0;  ///< left to another thread
  double on_core_ms = 0;
};

/// When the step ended.
thread_local ThreadTurns turns_before;

std::int32_t whole_us(float ms) {
  constexpr float kMost = 2e6;  // of a step, in milliseconds
  return static_cast<std::int32_t>(std::clamp(ms, 0.0F, kMost) * 1000);
}

// For ranks and devices.
double other_waits_ms(const Capture& capture, const PendingWait& wait) {
  return static_cast<double>(wait.exchanged_ns) / 1e6 + capture.ms_of(wait.device_ticks);
}

double ms_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
}

ThreadTurns turns_so_far() {
  rusage usage{};
  if (getrusage(RUSAGE_THREAD, &usage) != 0) return {};
  return {.waits = usage.ru_nvcsw,
          .preemptions = usage.ru_nivcsw,
          .on_core_ms = ms_of(usage.ru_utime) + ms_of(usage.ru_stime)};
}

// Whoever never waited and yet had no core was kept from it by others.
double kept_from_core_ms(double own_ms) {
  const ThreadTurns now = turns_so_far();
  if (now.waits > turns_before.waits || now.preemptions == turns_before.preemptions) return 0;
  return std::max(own_ms - (now.on_core_ms - turns_before.on_core_ms), 0.0);
}
}  // namespace

void StepWait::begin(Capture& capture, bool resting) noexcept {
  const Capture::Spent spent = capture.spent();
  const bool is_first = now_.ended_ms == 0;
  now_ = {.pending = true,
          .resting = resting,
          .loader_threads = loader_threads(),
          .step_ms = static_cast<float>(is_first ? 0 : spent.wall_ms - now_.ended_ms),
          .ended_ms = spent.wall_ms,
          .hooks_before_ms = spent.hooks_ms};
  if (!resting) turns_before = turns_so_far();
}

void StepWait::end() noexcept {
  as_guest("wait", [](Capture& capture) {
    now_.pending = false;
    const Capture::Spent spent = capture.spent();
    const double hooks_ms = spent.hooks_ms - now_.hooks_before_ms;
    const double between_ms = spent.wall_ms - now_.ended_ms - other_waits_ms(capture, now_);
    double own_ms = between_ms - hooks_ms;
    now_.waited_ms = static_cast<float>(between_ms);
    if (now_.resting && own_ms < kLongMs) return;
    if (!now_.resting) own_ms -= kept_from_core_ms(own_ms);
    StepWaitEvent event{.at = capture.marker().now(),
                        .wait_ms = static_cast<float>(std::max(own_ms, 0.0)),
                        .step_ms = now_.step_ms,
                        .loader_threads = now_.loader_threads,
                        .archived = now_.archived};
    if (capture.marker().surveying()) {
      event.drawn_ms = static_cast<float>(capture.ms_of(now_.drawn_ticks));
      event.computed_ms = static_cast<float>(capture.ms_of(now_.computed_ticks));
    }
    capture.put(std::move(event));
  });
}

void StepWait::end_forward(const Capture& capture) noexcept {
  const double since_ms = capture.spent().wall_ms - now_.ended_ms - other_waits_ms(capture, now_);
  now_.forward_ms = static_cast<float>(since_ms) - now_.waited_ms;
}

void StepWait::add_to(StepEndEvent& event) noexcept {
  event.wait_us = whole_us(now_.waited_ms);
  event.forward_us = whole_us(now_.forward_ms);
}

}  // namespace ddpscope
