#include "hooks/grad_mode_watch.h"

#include <c10/core/GradMode.h>

#include <chrono>
#include <cstdint>

#include "hooks/autograd_watch.h"
#include "hooks/hook_scope.h"
#include "hooks/interposed.h"
#include "hooks/near_tls.h"
#include "hooks/optimizer_watch.h"

namespace ddpscope {
namespace {
using Clock = std::chrono::steady_clock;
// No operator that is dispatched takes less; a guard without a name is gone in a tenth of it.
constexpr std::chrono::microseconds kEmpty{1};
constexpr std::uint64_t kMostWrites = 3;

struct GradScope {
  std::int64_t off_since = 0;      // of the clock; 0: unknown
  std::uint64_t ended_before = 0;  // the write after an empty scope, from 1; 0: none
};
DDPSCOPE_NEAR constinit thread_local GradScope scope;

struct SetEnabled;
using Hooked = Interposed<SetEnabled, void(bool)>;

// What optimizers, the engine and our own hooks turn is not a guard of the program.
bool turned_by_program(const HookScope& capture) noexcept {
  return capture && !inside_optimizer_step() && !inside_backward();
}

// Between the two readings of the clock lies no work of ours.
void see_turned_off() noexcept {
  scope.off_since = 0;
  {
    const HookScope capture(Timed::kSampled, Watch::kStructure);
    if (!turned_by_program(capture)) return;
  }
  scope.off_since = Clock::now().time_since_epoch().count();
}

void see_turned_on(Clock::time_point now) noexcept {
  const HookScope capture(Timed::kSampled, Watch::kStructure);
  if (!turned_by_program(capture)) return;
  const Clock::time_point off{Clock::duration(scope.off_since)};
  scope.ended_before = now - off < kEmpty ? capture->writes().next() + 1 : 0;
}

void set_enabled(bool on) {
  const bool was_on = c10::GradMode::is_enabled();
  const Clock::time_point now = on && !was_on ? Clock::now() : Clock::time_point();
  Hooked::original(on);
  if (on == was_on) return;
  if (on) {
    see_turned_on(now);
  } else {
    see_turned_off();
  }
}
}  // namespace

bool empty_guard_just_ended(const WriteLog& writes) noexcept {
  return scope.ended_before != 0 && writes.next() + 1 - scope.ended_before <= kMostWrites;
}

bool install_grad_mode_watch() noexcept {
  return Hooked::install_for_watched("_ZN3c108GradMode11set_enabledEb", set_enabled);
}

}  // namespace ddpscope
