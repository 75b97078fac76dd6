#pragma once

#include "hooks/capture.h"
#include "model/autograd_event.h"

namespace ddpscope {

/// What this thread does now, with its call stack where the level asks for stacks.
Doing doing_now(Capture& capture) noexcept;
/// Its call stack, in which LibTorch throws.
StackId thrown_from(const Capture& capture) noexcept;

}  // namespace ddpscope
