#pragma once

namespace ddpscope {

/// Tensors that are read from and written to archives by name, except by optimizers.
bool install_archive_watch() noexcept;

}  // namespace ddpscope
