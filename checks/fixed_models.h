#pragma once

#include <functional>

#include "checks/run_state.h"

namespace ddpscope {

/// While an optimizer steps, none holds a part of the model of `tensor`, nor does the program write
/// it.
bool is_of_untrained_model(const RunState& state, const TensorState& tensor);

/// It is of such a model, which reads what an optimizer trains as its input and nothing else, as
/// the network behind an image that is fitted to it or that attacks it.
bool is_behind_members(const RunState& state, const TensorState& tensor);
/// The same of tensors that no known model registers.
bool are_behind_members(const std::function<bool(const TensorState&)>& is_of_them,
                        const RunState& state);

}  // namespace ddpscope
