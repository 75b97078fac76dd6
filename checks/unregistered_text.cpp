#include "checks/unregistered_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "checks/finding_text.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxOps = 4;

bool was_reached(const RegisteredTensor& registered, const RunState& state) {
  const TensorState* tensor = state.tensor(registered.tensor.id);
  return tensor != nullptr && tensor->reached_steps > 0;
}
}  // namespace

std::string unused_module(const ModelState& model, std::string_view type, const RunState& state) {
  std::map<std::string, bool> reached;  // by path
  for (const RegisteredTensor& registered : model.tensors) {
    if (registered.is_buffer || !registered.tensor.requires_grad) continue;
    reached[registered.module_path] |= was_reached(registered, state);
  }
  std::string found;
  for (const ModuleInfo& module : model.modules) {
    const auto entry = reached.find(module.path);
    if (module.type != type || entry == reached.end() || entry->second) continue;
    if (!found.empty()) return "";
    found = module.path;
  }
  return found;
}

std::vector<std::string> consumer_ops(const std::vector<const TensorState*>& tensors) {
  std::vector<std::string> ops;
  for (const TensorState* tensor : tensors) {
    if (tensor->use.ops.empty()) continue;
    const std::string& op = tensor->use.ops.front();
    if (ops.size() < kMaxOps && std::ranges::find(ops, op) == ops.end()) ops.push_back(op);
  }
  return ops;
}

namespace {
bool is_of_libtorch(const ModelState& model, const std::string& path) {
  const auto found = std::ranges::find(model.modules, path, &ModuleInfo::path);
  return found != model.modules.end() && found->type.starts_with("torch::nn::");
}
}  // namespace

std::string common_module(const ModelState& model, const std::vector<const TensorState*>& tensors) {
  std::optional<std::string> path;
  for (const TensorState* tensor : tensors) {
    const std::string own = tensor->use.common_path.value_or("");
    path = path.has_value() ? common_path(*path, own) : own;
  }
  std::string module = path.value_or("");
  if (std::ranges::any_of(tensors, [](const auto* tensor) { return tensor->use.is_inside; })) {
    return module;
  }
  while (!module.empty() && is_of_libtorch(model, module)) {
    const std::size_t dot = module.rfind('.');
    module.resize(dot == std::string::npos ? 0 : dot);
  }
  return module;
}

std::vector<Fix> unregistered_fixes(const std::string& unused) {
  const Fix external = {"declare them external, if they are inputs on purpose",
                        Applicability::kNeedsDecision};
  if (!unused.empty()) {
    const std::string name = unused.substr(unused.rfind('.') + 1);
    return {{fmt::format("replace_module(\"{}\", layer) in place of an assignment to the member: "
                         "{}, registered and of the same type, is not used",
                         name, unused),
             Applicability::kLikely},
            external};
  }
  return {{"register_module(name, layer) for each element of a vector, or torch::nn::ModuleList",
           Applicability::kLikely},
          {"register_parameter(name, tensor) for a plain tensor", Applicability::kLikely},
          external};
}

}  // namespace ddpscope
