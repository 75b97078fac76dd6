#pragma once

#include <string>

#include "model/hot_code.h"
#include "model/tensor_info.h"

namespace torch::optim {
class Optimizer;
}

namespace ddpscope {

/// Creation, members, steps and `zero_grad` of the optimizers that LibTorch ships; of an own class
/// its creation and `zero_grad`, which then stands for its step.
bool install_optimizer_watch() noexcept;

class Capture;

/// Remembers, from the loading of the library on, which optimizers are built: the only hook that is
/// in place before the first attach.
bool install_optimizer_creation() noexcept;

/// Tells what was built before capture ran.
void tell_early_optimizers(Capture& capture);

/// Whether this thread is inside an optimizer's `step()`.
bool inside_optimizer_step() noexcept;

/// The optimizer whose `step()` this thread is inside of; 0 if none.
DDPSCOPE_HOT OptimizerId current_optimizer() noexcept;

/// Gives an optimizer a name and tells its members now.
void watch_optimizer(torch::optim::Optimizer& optimizer, const std::string& name);

}  // namespace ddpscope
