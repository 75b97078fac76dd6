#pragma once

#include <string>

namespace ddpscope {

/// Errors that LibTorch raises through `TORCH_CHECK`, noted just before they are thrown.
bool install_error_watch() noexcept;

/// The text of the last error on this thread since it was forgotten; empty if there was none.
const std::string& last_error_text() noexcept;
void forget_error_text() noexcept;

}  // namespace ddpscope
