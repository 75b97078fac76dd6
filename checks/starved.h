#pragma once

#include <cstdint>
#include <vector>

#include "checks/gradient_cuts.h"
#include "checks/run_state.h"

namespace ddpscope {

/// Whether a backward of this cycle reached it, with a gradient or without one.
bool received_gradient(const TensorState& tensor, std::int64_t cycle);
/// The same of any that may be trained.
bool some_received_gradient(const RunState& state, std::int64_t cycle);
/// Whether it had a gradient in one of the last cycles, of which `grad-missing` wants as many.
bool had_gradient_lately(const TensorState& tensor, std::int64_t cycle);

/// The trainable leaves that operators of this step read and no backward of it reached.
std::vector<TensorId> unreached(const RunState& state);

/// The cuts between this backward and members of optimizers that it does not reach, while another
/// one may have, as autograd::grad(): `if_idle`.
std::vector<GradientCut> idle_cuts(const BackwardEvent& event, const RunState& state);

/// Registered parameters that optimizers hold and that require no gradient now.
std::vector<const TensorState*> frozen_members(const RunState& state);

/// The trainable ones of which no backward has given a gradient, while others had one.
std::vector<const TensorState*> untrained_members(const RunState& state);

/// The cuts with the parameters that still wait for a gradient in this cycle.
std::vector<GradientCut> narrowed(std::vector<GradientCut> cuts, const RunState& state);

/// Parameters that had a gradient, and of which this step uses new tensors alone, made with grad
/// mode off, as in `w = w - lr * w.grad()`.
GradientCut cut_by_rebinding(const RunState& state);

/// Where no operator was recorded: all parameters that optimizers hold, cut by grad mode.
GradientCut cut_by_grad_mode(const RunState& state);

}  // namespace ddpscope
