#pragma once

#include "model/tensor_info.h"

namespace torch::optim {
class Optimizer;
}

namespace ddpscope {

class Capture;

/// Tells a fingerprint of the state with which an optimizer begins its first step, as a checkpoint
/// gave it one: momentum, averages, counts of steps. Only where ranks are compared.
void tell_first_state(Capture& capture, const torch::optim::Optimizer& optimizer, OptimizerId id);

}  // namespace ddpscope
