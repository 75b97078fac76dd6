#pragma once

#include "model/tensor_info.h"

namespace ddpscope {

/// Watches `Module::is_training`: layers whose forward is compiled into the program ask it.
void install_mode_asked() noexcept;

/// The module that this thread asked last; it may be gone.
ModuleId last_mode_asked() noexcept;

}  // namespace ddpscope
