#pragma once

namespace ddpscope {

/// Whether the program has operators of its own (`TORCH_LIBRARY`): its calls of them go to the
/// dispatcher itself, past the gate.
bool any_own_operators() noexcept;

/// Counts them, and calls `registered` for each, those that are there already included. Once.
/// @throws std::bad_alloc
void watch_own_operators(void (*registered)() noexcept);

}  // namespace ddpscope
