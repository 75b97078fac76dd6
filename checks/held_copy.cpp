#include "checks/held_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "checks/finding_text.h"
#include "checks/subtree.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using Shapes = std::multiset<std::vector<std::int64_t>>;

bool is_at_rest(const TensorState& tensor, std::int64_t since_cycle) {
  return tensor.gradients == 0 || tensor.left_with_root || tensor.gradient_cycle < since_cycle;
}
}  // namespace

HeldCopy held_copy_of(const std::vector<const TensorState*>& parameters, const RunState& state,
                      std::int64_t cycles) {
  Shapes wanted;
  for (const TensorState* parameter : parameters) wanted.insert(parameter->info.shape);
  const std::int64_t since = state.now().cycle - cycles;
  for (const auto& [id, optimizer] : state.optimizers()) {
    if (optimizer.steps == 0 || !optimizer.members_known) continue;
    if (optimizer.has_ended(state.now())) continue;
    std::map<std::string, std::pair<Shapes, std::vector<std::string>>> held;  // by model
    HeldCopy copy{.optimizer = &optimizer};
    for (const auto& group : optimizer.groups) {
      for (const OptimizerMember& member : group) {
        const TensorState* tensor = state.tensor(member.tensor);
        if (tensor == nullptr || !is_at_rest(*tensor, since)) continue;
        const bool is_registered = !tensor->registrations.empty();
        copy.was_registered |= is_registered || !tensor->former_path.empty();
        copy.is_gone |= tensor->left_with_root;
        auto& [shapes, paths] = held[is_registered ? state.model_of(*tensor)->label : ""];
        shapes.insert(tensor->info.shape);
        if (is_registered) paths.push_back(tensor_path(*tensor));
      }
    }
    for (const auto& [model, members] : held) {
      const auto& [shapes, paths] = members;
      if (!std::ranges::includes(shapes, wanted)) continue;
      copy.model = model;
      copy.paths = paths;
      return copy;
    }
  }
  return {};
}

bool are_whole_model(const std::vector<const TensorState*>& parameters, const RunState& state) {
  const ModelState* model = state.model_of(*parameters.front());
  if (model == nullptr) return false;
  std::set<std::string> modules;
  for (const RegisteredTensor& registered : model->tensors) {
    if (registered.is_buffer || !registered.tensor.requires_grad) continue;
    modules.insert(registered.module_path);
    const auto is_it = [&](const TensorState* one) { return one->info.id == registered.tensor.id; };
    if (std::ranges::none_of(parameters, is_it)) return false;
  }
  return modules.size() > 1;
}

void say_copy(const HeldCopy& copy, Finding& finding) {
  finding.why = fmt::format(
      "{} holds as many parameters of the same shapes, {}, which no backward reaches: those of "
      "{}",
      optimizer_label(*copy.optimizer),
      copy.model.empty() ? "registered nowhere" : "of " + copy.model,
      copy.is_gone && copy.model.empty() ? "a model that is gone, for which it was built"
                                         : "another model, as clone() makes one");
  finding.fixes = fixes_of_copy();
  finding.facts.push_back({fact::kTwinPaths, as_fact(copy.paths)});
}

std::vector<Fix> fixes_of_copy() {
  using enum Applicability;
  return {{"build the optimizer with the parameters of the model that is trained", kLikely},
          {"or train the model that the optimizer was built with", kLikely}};
}

}  // namespace ddpscope
