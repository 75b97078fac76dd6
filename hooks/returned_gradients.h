#pragma once

#include <torch/csrc/autograd/variable.h>

namespace ddpscope {

/// What autograd::grad() returned without a graph, on survey steps; outside of a backward. It is
/// told as an operator that reads nothing, so that what is computed of it is followed.
void tell_returned_gradients(const torch::autograd::variable_list& gradients) noexcept;

}  // namespace ddpscope
