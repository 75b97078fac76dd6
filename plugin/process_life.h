#pragma once

namespace ddpscope {

/// Registers what happens at exit, at `std::terminate` and after a fork. Once, from the first
/// attach: by then LibTorch's own objects exist, so our handler runs before they are destroyed.
void watch_process_life();

}  // namespace ddpscope
