#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "model/tensor_info.h"

namespace ddpscope {

/// Whether an operator that returned as many tensors as `outputs` wrote `output`, one of them. Some
/// return an input as it is: contiguous() does, and broadcast_tensors() where shapes are equal.
bool writes_output(std::string_view op, std::span<const TensorId> inputs, std::size_t outputs,
                   TensorId output);

}  // namespace ddpscope
