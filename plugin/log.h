#pragma once

#include <string>

#include "config/setting_types.h"

namespace ddpscope {

/// ddpscope's own log on stderr: about itself, never findings. One line each, any thread but a
/// training thread in a hook.
void set_log_level(LogLevel level);
void log_error(const std::string& text);
void log_warning(const std::string& text);
void log_info(const std::string& text);

}  // namespace ddpscope
