#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checks/run_state.h"
#include "model/finding.h"

namespace ddpscope {

/// The first operators that read each of them.
std::vector<std::string> consumer_ops(const std::vector<const TensorState*>& tensors);

/// The deepest module of the model below which all of them are used. Not a layer of LibTorch where
/// that is known of what ran beside them: it runs no operators of the program.
std::string common_module(const ModelState& model, const std::vector<const TensorState*>& tensors);

/// What is said of tensors that no known model registers. A layer that more than one object holds
/// may be registered, in a model that is not known.
struct UnregisteredWords {
  std::string where;
  std::string why;
  std::string unused;  ///< path of the one registered module of their type that no backward reached
  std::vector<Fix> fixes;
  Severity severity = Severity::kError;
};
UnregisteredWords unregistered_words(const ModelState& known,
                                     const std::vector<const TensorState*>& tensors,
                                     const RunState& state);

}  // namespace ddpscope
