#pragma once

#include "model/op_event.h"

namespace ddpscope {

/// Comparisons with labels and the losses that `install_range_ops` leaves out.
void install_judging_ops() noexcept;

/// Dropout or batch norm runs with `training` true and without grad. `module` and `weight`: 0 where
/// hooks rest.
void ran_in_training(const char* op, ModuleId module = 0, TensorId weight = 0) noexcept;
/// A backward of this thread begins.
void see_trained() noexcept;

/// A loss, or a comparison with labels, is about to run: without grad it is told, if one of those
/// ran before it, unless that is what each step does.
void see_judging(const char* op) noexcept;

}  // namespace ddpscope
