#pragma once

#include "model/hot_code.h"

namespace at {
class Tensor;
}

namespace ddpscope {

/// Begin and end of each outermost backward at `Engine::execute`; on survey steps the graph is
/// walked from its roots to the leaves.
bool install_autograd_watch() noexcept;

/// Tells the leaves that this loss reaches, without a backward.
void walk_loss(const at::Tensor& loss);

/// How many backward calls this thread is inside of; a thread of the engine that runs a node is
/// inside of one at least.
DDPSCOPE_HOT int backward_depth() noexcept;
inline bool inside_backward() noexcept { return backward_depth() > 0; }
/// Whether this thread runs the backward of a torch::autograd::Function of the program.
bool inside_own_function();

}  // namespace ddpscope
