#pragma once

#include <cstddef>

namespace ddpscope {

// A ring is memory of a file. Whoever shortens that file takes the memory away: the next write is a
// SIGBUS, on whatever thread issues a collective. Its handler asks here first.

/// The mapping of this process's ring from here on, in whole pages; of the last one, if several.
void guard_ring(void* begin, std::size_t bytes) noexcept;
void forget_ring(const void* begin) noexcept;
/// Whether `at` lies in it. It is then memory of the process's own, of zeros: what is written there
/// reaches no file any more. Async-signal-safe.
bool mend_ring(const void* at) noexcept;
bool is_ring_mended() noexcept;

}  // namespace ddpscope
