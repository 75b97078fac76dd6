#pragma once

#include <torch/csrc/autograd/function.h>

#include <optional>
#include <string>
#include <vector>

#include "hooks/capture.h"
#include "model/value_event.h"

namespace ddpscope {

/// Where and when the node was made, in a cycle that was watched.
std::optional<Doing> birth_of(const Capture& capture, const torch::autograd::Node& node);
/// `consumers`: what reads the node's results on the way to the root, the nearest first.
MadeIn made_in(Capture& capture, const torch::autograd::Node& node,
               const std::vector<const torch::autograd::Node*>& consumers);
/// The node of a write through a view, which knows the operator until it has run.
bool writes_through_view(const torch::autograd::Node& node);
/// The operator that made the node; of such a write the one that wrote.
std::string operator_of(const torch::autograd::Node& node);

}  // namespace ddpscope
