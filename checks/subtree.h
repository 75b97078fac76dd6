#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "checks/run_state.h"

namespace ddpscope {

/// Tensors that one finding speaks about, and where.
struct TensorGroup {
  ModelId model = 0;
  std::string model_label;
  std::string module_path = {};
  std::string subject = {};  ///< the name, if it is one tensor
  std::vector<const TensorState*> tensors = {};
  bool is_whole = false;  ///< all trainable parameters of modules, none of one that has others
};

/// Rule 8: `affected` as maximal subtrees all of whose trainable parameters are affected; more
/// than three of one model as one group at their deepest common module. Tensors that are
/// registered nowhere form one group below the first model, or below none.
std::vector<TensorGroup> collapse(const RunState& state,
                                  const std::vector<const TensorState*>& affected);

/// The path of a registered tensor without its root's name; its shape if it is not registered.
std::string tensor_path(const TensorState& tensor);

}  // namespace ddpscope
