#pragma once

#include "model/tensor_info.h"

namespace torch::optim {
class Optimizer;
}

namespace ddpscope {

class Capture;

/// Tells that an optimizer begins its first step; where ranks are compared, with a fingerprint of
/// its state, as a checkpoint gave it one: momentum, averages, counts of steps.
void tell_first_state(Capture& capture, const torch::optim::Optimizer& optimizer, OptimizerId id);

}  // namespace ddpscope
