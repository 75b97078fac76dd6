#pragma once

#include <torch/nn/module.h>

#include "model/hot_code.h"

namespace ddpscope {

/// The forward of `module` is about to run on this thread: what waits for a part of a forward sees
/// it here. `ModuleCalls` tells which one runs.
DDPSCOPE_HOT void see_module_forward(const torch::nn::Module& module);

}  // namespace ddpscope
