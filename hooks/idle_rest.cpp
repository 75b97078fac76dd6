#include "hooks/idle_rest.h"

#include <c10/core/GradMode.h>

#include "hooks/capture.h"

namespace ddpscope {
namespace {
constexpr std::uint32_t kManyCalls = 1 << 14;  // no forward has as many
constexpr std::uint32_t kCallsOfGradient = 256;

/// How the calls went because of which hooks rest.
struct Mode {
  std::atomic<bool> grads{true};
  std::atomic<bool> trains{true};
};
constinit Mode before;

bool count(std::uint32_t calls) noexcept {
  const std::uint32_t seen = hook_state.idle_calls.load(std::memory_order_relaxed) + calls;
  hook_state.idle_calls.store(seen < kManyCalls ? seen : 0, std::memory_order_relaxed);
  return seen >= kManyCalls;
}

void rest(Capture& capture, bool grads, bool trains) {
  if (!capture.rest_in_cycle()) return;
  before.grads.store(grads, std::memory_order_relaxed);
  before.trains.store(trains, std::memory_order_relaxed);
  hook_state.idle.store(true, std::memory_order_relaxed);
}

bool trains_again(const torch::nn::Module& module) {
  if (!c10::GradMode::is_enabled()) return false;
  if (!before.grads.load(std::memory_order_relaxed)) return true;
  return !before.trains.load(std::memory_order_relaxed) && module.is_training();
}
}  // namespace

void IdleRest::see_call_of(const torch::nn::Module& module) noexcept {
  if (!is_idle()) {
    if (!count(1)) return;
    as_guest("forward", [&](Capture& capture) {
      rest(capture, c10::GradMode::is_enabled(), module.is_training());
    });
  } else if (trains_again(module)) {
    as_guest("forward", [](Capture& capture) {
      capture.wake();
      cycle_ended();
    });
  }
}

void IdleRest::see_operator() noexcept {
  if (c10::GradMode::is_enabled() || is_idle() || !count(1)) return;
  as_guest("op", [](Capture& capture) { rest(capture, /*grads=*/false, /*trains=*/true); });
}

void IdleRest::see_backward(Capture& capture, bool accumulates) noexcept {
  if (accumulates) {
    hook_state.idle_calls.store(0, std::memory_order_relaxed);
  } else if (Capture::watch() != Watch::kNothing && count(kCallsOfGradient)) {
    rest(capture, /*grads=*/true, /*trains=*/true);
  }
}

}  // namespace ddpscope
