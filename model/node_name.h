#pragma once

#include <string>

namespace ddpscope {

/// The operator behind a node of the graph: `aten::sigmoid` for `SigmoidBackward0`; a node that is
/// not named after one keeps its name.
std::string op_of_node(const std::string& node);

}  // namespace ddpscope
