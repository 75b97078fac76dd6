#pragma once

namespace ddpscope {

/// Whether operators that read a parameter of a hooked module count as calls of it. Costs each
/// operator of the program a look at its inputs while it is on.
void infer_calls(bool on) noexcept;

}  // namespace ddpscope
