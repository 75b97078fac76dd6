#pragma once

namespace ddpscope {

/// Where the preload library brought us into a program: lets its first use of LibTorch start the
/// session, as the variable DDPSCOPE says, and discovers its models. Else does nothing.
void discover_if_preloaded() noexcept;

}  // namespace ddpscope
