#pragma once

#include "hooks/write_log.h"

namespace ddpscope {

/// Whether a scope that turned grad mode off has just ended on this thread with nothing done in it:
/// a guard without a name, which ends at its own semicolon. Not more than three writes ago.
bool empty_guard_just_ended(const WriteLog& writes) noexcept;

bool install_grad_mode_watch() noexcept;

}  // namespace ddpscope
