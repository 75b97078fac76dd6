#pragma once

namespace ddpscope {

/// Errors that LibTorch raises through `TORCH_CHECK`, noted just before they are thrown.
bool install_error_watch() noexcept;

}  // namespace ddpscope
