#pragma once

#include <atomic>
#include <cstdint>

#include "model/cost_governor.h"
#include "model/finding.h"

namespace ddpscope {

class Capture;

// Note [What a hook reads]
// Between two calls of a hook the program's own data fills the caches, so that each line that a
// hook reads comes from memory: 50 to 100 ns, ten times the work of a hook at rest. What hooks ask
// in every call therefore stands in one line; the classes that own it read and write it there.

/// What all hooks ask.
struct alignas(64) HookState {
  std::atomic<Capture*> active{nullptr};     ///< `Capture::active`
  std::atomic<Watch> watch{Watch::kFull};    ///< `Capture::watch`
  std::atomic<Phase> phase{Phase::kInit};    ///< `LoopPhase`
  std::atomic<bool> compares_ranks{false};   ///< options of the active capture
  std::atomic<bool> has_user_hooks{false};   ///< `UserHooks::any`
  std::atomic<bool> device_used{false};      ///< `DeviceWaits`
  std::atomic<bool> has_discovered{false};   ///< `has_discovered`
  std::atomic<bool> discovery_waits{false};  ///< `discovery_waits`
  std::atomic<bool> has_reducers{false};     ///< a `c10d::Reducer` was built
  std::atomic<bool> device_values{false};    ///< a loss or a gradient lay on a device
  std::atomic<bool> writers_rest{false};     ///< `RestingWriters`
  std::atomic<bool> idle{false};             ///< `IdleRest`
  std::atomic<std::uint32_t> layers{0};      ///< called so far, or a few less: a sign of life
  std::atomic<std::uint32_t> idle_calls{0};
};
inline constinit HookState hook_state;
static_assert(sizeof(HookState) == 64);

}  // namespace ddpscope
