#pragma once

namespace ddpscope {

/// Every gradient that reaches a leaf, seen at `AccumulateGrad::apply`. Never keeps the tensor.
bool install_gradient_watch() noexcept;

/// Order-free hash of the leaves that received a gradient on this thread since the last call.
unsigned long long take_leaves_hash() noexcept;

}  // namespace ddpscope
