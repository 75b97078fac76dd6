#pragma once

namespace ddpscope {

/// Batch norm with running statistics and every kind of dropout, as the program calls them; batch
/// and instance norm also as calls of the layers whose tensors they are given.
bool install_training_ops() noexcept;

/// Whether the operators of BatchNorm and InstanceNorm are hooked.
bool normalizations_are_live() noexcept;

}  // namespace ddpscope
