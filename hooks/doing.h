#pragma once

#include "hooks/capture.h"
#include "model/autograd_event.h"
#include "model/hot_code.h"

namespace ddpscope {

/// What this thread does now, with its call stack where the level asks for stacks.
DDPSCOPE_HOT Doing doing_now(Capture& capture) noexcept;
/// Its call stack, in which LibTorch throws.
StackId thrown_from(const Capture& capture) noexcept;

}  // namespace ddpscope
