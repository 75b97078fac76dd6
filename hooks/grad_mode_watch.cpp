#include "hooks/grad_mode_watch.h"

#include <c10/core/GradMode.h>

#include <cstdint>

#include "hooks/autograd_watch.h"
#include "hooks/capture.h"
#include "hooks/interposed.h"
#include "hooks/near_tls.h"
#include "hooks/optimizer_watch.h"

namespace ddpscope {
namespace {
// No operator that is dispatched takes less; a guard without a name is gone in a tenth of it.
constexpr double kEmptyMs = 1e-3;
constexpr std::uint64_t kMostWrites = 3;

struct GradScope {
  std::uint64_t off_since = 0;     // ticks; 0: unknown
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
  scope.off_since = ticks();
}

void see_turned_on(std::uint64_t now) noexcept {
  const HookScope capture(Timed::kSampled, Watch::kStructure);
  if (!turned_by_program(capture)) return;
  const bool is_empty = scope.off_since != 0 && capture->ms_of(now - scope.off_since) < kEmptyMs;
  scope.ended_before = is_empty ? capture->writes().next() + 1 : 0;
}

void set_enabled(bool on) {
  const bool was_on = c10::GradMode::is_enabled();
  const std::uint64_t now = on && !was_on ? ticks() : 0;
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
