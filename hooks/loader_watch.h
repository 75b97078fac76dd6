#pragma once

#include <cstdint>

namespace ddpscope {

/// The threads of LibTorch's data loaders that run now.
std::int32_t loader_threads() noexcept;

/// Whether the calling thread is one of them.
bool is_loader_thread() noexcept;

/// Counts them from here on. Before the first of them starts, so when the library is loaded.
bool install_loader_watch() noexcept;

}  // namespace ddpscope
