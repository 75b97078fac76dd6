#include "checks/self_writes.h"

#include <string_view>

namespace ddpscope {
namespace {
bool is_parameter(const TensorState* tensor) {
  return tensor != nullptr && !tensor->registrations.empty() && !tensor->is_buffer;
}

/// The parameter that this is, or that `data()` returned it of; 0: none. A part of one is not it.
TensorId parameter_of(TensorId id, const RunState& state) {
  const TensorState* tensor = state.tensor(id);
  if (tensor == nullptr || is_parameter(tensor)) return tensor == nullptr ? 0 : id;
  const TensorState* behind = state.tensor(state.tensors().registered_in(tensor->info.storage));
  const bool is_all = is_parameter(behind) && behind->info.elements == tensor->info.elements;
  return is_all ? behind->info.id : 0;
}

/// `add_` of `aten::add_` and of `aten::_foreach_add_`.
std::string name_in_program(const std::string& op) {
  constexpr std::string_view kList = "_foreach_";
  std::string name = op.substr(op.rfind(':') + 1);
  if (name.starts_with(kList)) name.erase(0, kList.size());
  return name;
}
}  // namespace

void SelfWrites::on(const OpEvent& event, const RunState& state) {
  const std::string name = name_in_program(event.op);
  const bool scales = name == "mul_";
  if (!scales && name != "copy_" && name != "lerp_" && name != "add_") return;
  std::set<TensorId> seen;
  for (const TensorId input : event.inputs) {
    const TensorId id = parameter_of(input, state);
    if (id == 0) continue;
    if (scales) scaled_.insert(id);
    const bool is_first = seen.insert(id).second;
    if (is_first || scales || (name == "add_" && !scaled_.contains(id))) continue;
    written_.insert(id);
    by_ = name;
  }
}

void SelfWrites::clear() {
  scaled_.clear();
  written_.clear();
}

}  // namespace ddpscope
