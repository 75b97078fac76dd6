#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checks/run_state.h"
#include "model/finding.h"

namespace ddpscope {

/// Path of the registered module of this type whose trainable parameters no backward has reached;
/// "" where there is none, or more than one.
std::string unused_module(const ModelState& model, std::string_view type, const RunState& state);

/// The first operators that read each of them.
std::vector<std::string> consumer_ops(const std::vector<const TensorState*>& tensors);

/// The deepest module of the model below which all of them are used. Not a layer of LibTorch where
/// that is known of what ran beside them: it runs no operators of the program.
std::string common_module(const ModelState& model, const std::vector<const TensorState*>& tensors);

/// What to do about tensors that are registered nowhere; `unused`: see above.
std::vector<Fix> unregistered_fixes(const std::string& unused);

}  // namespace ddpscope
