#pragma once

namespace ddpscope {

// Note [Outer hooks]
// The gate has one slot for each function, which holds one hook. What stands in front of a hook of
// ours must be put after it and call it: hooks are remembered for that, where it is asked for.

/// From here on hooks are remembered. Before the first of them, on one thread.
void remember_hooks();

/// Sends calls of `symbol` to `hook` before they reach ours. `*original` is what it calls then: our
/// hook, also one that is put in later, else LibTorch. False where the program's calls do not
/// arrive.
bool hook_before(const char* symbol, void* hook, void** original) noexcept;

}  // namespace ddpscope
