#pragma once

namespace ddpscope {

/// Begin and end of each outermost backward at `Engine::execute`; on survey steps the graph is
/// walked from its roots to the leaves.
bool install_autograd_watch() noexcept;

/// Whether this thread is inside a backward.
bool inside_backward() noexcept;

}  // namespace ddpscope
