#include "checks/ownerless.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "checks/byte_text.h"
#include "checks/lapsed_owners.h"
#include "checks/missing_cause.h"
#include "checks/subtree.h"

namespace ddpscope {
namespace {
bool evaluates(const ModelState& model, const std::string& path) {
  const auto module = std::ranges::find(model.modules, path, &ModuleInfo::path);
  return module != model.modules.end() && !module->training;
}

/// The highest module from `path` up to which all are in eval mode; none where `path` is not.
std::optional<std::string> top_in_eval(const ModelState& model, std::string path) {
  std::optional<std::string> top;
  while (evaluates(model, path)) {
    top = path;
    if (path.empty()) break;
    const std::size_t dot = path.rfind('.');
    path = dot == std::string::npos ? "" : path.substr(0, dot);
  }
  return top;
}

/// It is a view of a tensor that an optimizer holds, as one of all parameters in a row.
bool lies_in_member(const RunState& state, const TensorInfo& part) {
  const auto holds = [&](const OptimizerMember& member) {
    const TensorState* whole = state.tensor(member.tensor);
    if (whole == nullptr || member.tensor == part.id) return false;
    if (part.storage == 0 || whole->info.storage != part.storage) return false;
    const std::int64_t before = part.storage_offset_bytes - whole->info.storage_offset_bytes;
    return before >= 0 && before + bytes_of(part) <= bytes_of(whole->info);
  };
  return std::ranges::any_of(state.optimizers(), [&](const auto& entry) {
    const auto some = [&](const auto& group) { return std::ranges::any_of(group, holds); };
    return !entry.second.has_ended(state.now()) && std::ranges::any_of(entry.second.groups, some);
  });
}
}  // namespace

bool needs_owner(const RunState& state, const TensorState& tensor) {
  if (tensor.gradients == 0) return false;
  if (state.may_be_copy_of_thread(tensor) && !is_beside_members(state, tensor)) return false;
  // Without an attached module, also after the last one died, leaves that are used in two steps
  // stand in for parameters.
  if (tensor.registrations.empty() && !tensor.owners.empty()) {
    return state.eligible(tensor) && !tensor.left_with_root;
  }
  if (tensor.registrations.empty()) {
    return state.has_no_model() && tensor.reached_steps >= 2 && tensor.info.floating &&
           !state.is_data(tensor);
  }
  const Registration& at = tensor.registrations.front();
  const auto declared = [&](std::string_view kind) {
    return state.declared(at.model, tensor_path(tensor), kind);
  };
  return state.eligible(tensor) && tensor.info.requires_grad && !declared("external") &&
         !declared("sharded") && !lies_in_member(state, tensor.info);
}

bool is_in_fixed_part(const RunState& state, const TensorState& tensor) {
  const ModelState* model = tensor.registrations.empty() ? nullptr : state.model_of(tensor);
  if (model == nullptr) return false;
  const auto top = top_in_eval(*model, tensor.registrations.front().module_path);
  if (!top) return false;
  return std::ranges::none_of(model->tensors, [&](const RegisteredTensor& registered) {
    const std::string& path = registered.module_path;
    const bool is_there = top->empty() || path == *top || path.starts_with(*top + ".");
    const TensorState* other = is_there ? state.tensor(registered.tensor.id) : nullptr;
    return other != nullptr && is_held(state, *other);
  });
}

}  // namespace ddpscope
