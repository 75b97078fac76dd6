#pragma once

namespace ddpscope {

/// Switches the recording of operators on or off: a RecordFunction callback that exists during
/// survey steps only. Records operators of the forward that trainable tensors or buffers take part
/// in, and operators that throw.
void survey_operators(bool on) noexcept;

}  // namespace ddpscope
