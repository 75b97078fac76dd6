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
  const TensorState* behind = state.tensor(state.tensors().registered_in(tensor->info));
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
  if (!scales && event.outputs.size() == 1) see_memory(event, state);
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

// Where a parameter lies is known of what is written now, and of what a backward reached lately.
void SelfWrites::see_memory(const OpEvent& event, const RunState& state) {
  const TensorInfo& written = event.outputs.front();
  const bool is_known = written.storage != 0 && is_parameter(state.tensor(written.id));
  const std::string name = name_in_program(event.op);
  if (!is_known || (name == "add_" && !scaled_.contains(written.id))) return;
  for (const TensorId input : event.inputs) {
    const TensorState* source = state.tensor(input);
    if (input == written.id || !is_parameter(source) || source->gradients == 0) continue;
    const bool shares = source->info.storage == written.storage &&
                        source->info.storage_offset_bytes == written.storage_offset_bytes &&
                        source->info.elements == written.elements;
    if (!shares) continue;
    in_shared_memory_[written.id] = input;
    by_ = name;
  }
}

void SelfWrites::clear() {
  scaled_.clear();
  in_shared_memory_.clear();
  written_.clear();
}

}  // namespace ddpscope
