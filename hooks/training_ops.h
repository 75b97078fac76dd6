#pragma once

namespace ddpscope {

/// Batch norm with running statistics and every kind of dropout, as the program calls them.
bool install_training_ops() noexcept;

}  // namespace ddpscope
