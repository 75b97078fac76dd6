#pragma once

#include <string>

namespace ddpscope {

/// What nodes of `ddpscope::sync_batch_norm` are called after.
inline constexpr char kSyncBatchNorm[] = "ddpscope::sync_batch_norm";

/// The operator behind a node of the graph: `aten::sigmoid` for `SigmoidBackward0`; a node that is
/// not named after one keeps its name.
std::string op_of_node(const std::string& node);

}  // namespace ddpscope
