#pragma once

#include <string>
#include <string_view>

#include "model/finding.h"

namespace ddpscope {

/// As the source has it; what is no mangled name stays as it is.
std::string demangle(const std::string& name);

/// For one line: without parameters and return type, long template arguments as <…>.
std::string short_function(std::string_view demangled);

/// Of ddpscope itself: hidden.
bool is_own(std::string_view module);

/// Of LibTorch, the C++ or the C library, or out of their headers. `function` is whole.
bool is_library(std::string_view module, std::string_view file, std::string_view function);

/// The innermost frame that is no library's, or null.
const Frame* user_frame(const Site& site);

}  // namespace ddpscope
