#include "checks/ownerless.h"

#include <string_view>

#include "checks/missing_cause.h"
#include "checks/subtree.h"

namespace ddpscope {

bool is_ownerless(const RunState& state, const TensorState& tensor) {
  if (tensor.gradients == 0 || !tensor.owners.empty()) return false;
  if (state.may_be_copy_of_thread(tensor) && !is_beside_members(state, tensor)) return false;
  // Without an attached module, also after the last one died, leaves that are used in two steps
  // stand in for parameters.
  if (tensor.registrations.empty()) {
    return state.has_no_model() && tensor.reached_steps >= 2 && tensor.info.floating;
  }
  const Registration& at = tensor.registrations.front();
  const auto declared = [&](std::string_view kind) {
    return state.declared(at.model, tensor_path(tensor), kind);
  };
  return state.eligible(tensor) && tensor.info.requires_grad && !declared("external") &&
         !declared("sharded");
}

}  // namespace ddpscope
