#include "checks/subtree.h"

#include <algorithm>
#include <map>
#include <set>

#include "checks/finding_text.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxGroups = 3;

/// Every module above a path, the root first and the path itself last.
std::vector<std::string> ancestors(const std::string& path) {
  std::vector<std::string> modules = {""};
  for (std::size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', dot + 1)) {
    modules.push_back(path.substr(0, dot));
  }
  if (!path.empty()) modules.push_back(path);
  return modules;
}

/// Modules below which some trainable parameter is not affected.
std::set<std::string> mixed_modules(const RunState& state, const ModelState& model,
                                    const std::unordered_set<const TensorState*>& affected) {
  std::set<std::string> mixed;
  for (const RegisteredTensor& registered : model.tensors) {
    const TensorState* tensor = state.tensor(registered.tensor.id);
    if (tensor == nullptr || !state.eligible(*tensor) || affected.contains(tensor)) continue;
    for (std::string& module : ancestors(registered.module_path)) mixed.insert(std::move(module));
  }
  return mixed;
}

TensorGroup at_common_module(const ModelState& model, std::vector<const TensorState*> tensors) {
  TensorGroup group{.model = model.id, .model_label = model.label};
  group.module_path = tensors.front()->registrations.front().module_path;
  for (const TensorState* tensor : tensors) {
    group.module_path = common_path(group.module_path, tensor->registrations.front().module_path);
  }
  group.tensors = std::move(tensors);
  return group;
}

void name_single(TensorGroup& group) {
  if (group.tensors.size() != 1) return;
  const Registration& at = group.tensors.front()->registrations.front();
  group.module_path = at.module_path;
  group.subject = at.name;
}

std::vector<TensorGroup> collapse_in(const RunState& state, const ModelState& model,
                                     const std::vector<const TensorState*>& affected) {
  const auto mixed = mixed_modules(state, model, {affected.begin(), affected.end()});
  std::map<std::string, TensorGroup> groups;
  for (const TensorState* tensor : affected) {
    const Registration& at = tensor->registrations.front();
    const auto modules = ancestors(at.module_path);
    const auto whole = std::ranges::find_if(
        modules, [&mixed](const std::string& module) { return !mixed.contains(module); });
    const bool alone = whole == modules.end();
    TensorGroup& group = groups[alone ? at.module_path + "." + at.name : *whole];
    group.model = model.id;
    group.model_label = model.label;
    group.module_path = alone ? at.module_path : *whole;
    group.is_whole = !alone;
    group.tensors.push_back(tensor);
  }
  std::vector<TensorGroup> result;
  if (groups.size() > kMaxGroups) {
    result.push_back(at_common_module(model, affected));
    result.back().is_whole =
        std::ranges::all_of(groups, [](const auto& entry) { return entry.second.is_whole; });
  } else {
    for (auto& [key, group] : groups) result.push_back(std::move(group));
  }
  for (TensorGroup& group : result) name_single(group);
  return result;
}

/// Of what no model registers: the model whose parameters its optimizer holds too. Where that holds
/// none it is of a model that is not attached.
const ModelState* model_beside(const TensorState& tensor, const RunState& state) {
  if (tensor.owners.empty()) return state.first_model();
  for (const OptimizerId owner : tensor.owners) {
    for (const auto& group : state.optimizers().at(owner).groups) {
      for (const OptimizerMember& member : group) {
        const TensorState* other = state.tensor(member.tensor);
        const bool is_of_model = other != nullptr && !other->registrations.empty();
        if (is_of_model) return state.model_of(*other);
      }
    }
  }
  return nullptr;
}
}  // namespace

std::vector<TensorGroup> collapse(const RunState& state,
                                  const std::vector<const TensorState*>& affected) {
  std::map<ModelId, std::vector<const TensorState*>> by_model;
  TensorGroup unregistered;
  for (const TensorState* tensor : affected) {
    if (tensor->registrations.empty()) {
      unregistered.tensors.push_back(tensor);
    } else {
      by_model[tensor->registrations.front().model].push_back(tensor);
    }
  }
  std::vector<TensorGroup> result;
  for (const auto& [id, tensors] : by_model) {
    auto groups = collapse_in(state, state.models().at(id), tensors);
    std::ranges::move(groups, std::back_inserter(result));
  }
  if (unregistered.tensors.empty()) return result;
  if (const ModelState* model = model_beside(*unregistered.tensors.front(), state)) {
    unregistered.model = model->id;
    unregistered.model_label = model->label;
  }
  result.push_back(std::move(unregistered));
  return result;
}

std::string tensor_path(const TensorState& tensor) {
  if (tensor.registrations.empty()) return "tensor " + shape_text(tensor.info.shape);
  const Registration& at = tensor.registrations.front();
  return at.module_path.empty() ? at.name : at.module_path + "." + at.name;
}

}  // namespace ddpscope
