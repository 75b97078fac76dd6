#pragma once

#include <vector>

#include "model/tensor_info.h"

namespace ddpscope {

/// Switches the recording of operators on or off: a RecordFunction callback that exists during
/// survey steps only. Records operators of the forward that trainable tensors or buffers take part
/// in, and operators that throw.
void survey_operators(bool on) noexcept;

/// The outputs that were recorded on this thread since the last call.
std::vector<TensorId> take_survey_outputs();

}  // namespace ddpscope
