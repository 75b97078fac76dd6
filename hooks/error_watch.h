#pragma once

#include <string>

namespace ddpscope {

/// Every exception that is thrown in this process, noted just before it is thrown.
bool install_throw_watch() noexcept;
/// In its place where another tool owns `__cxa_throw`: errors of LibTorch's own checks.
bool install_check_watch() noexcept;

/// The text of the last exception on this thread since it was forgotten, or its type where the
/// text is the program's own business; empty if there was none.
std::string last_error_text();
void forget_error_text();

}  // namespace ddpscope
