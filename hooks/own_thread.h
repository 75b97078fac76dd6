#pragma once

namespace ddpscope {

/// What LibTorch does on the calling thread is ours and not the program's: no hook looks at it from
/// now on.
void leave_thread_alone() noexcept;

}  // namespace ddpscope
