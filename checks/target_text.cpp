#include "checks/target_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "checks/held_copy.h"
#include "checks/subtree.h"

namespace ddpscope {
namespace {
using enum Applicability;
using ModelShapes = std::multiset<std::vector<std::int64_t>>;

bool is_stepped(const TensorState& tensor, const RunState& state) {
  return std::ranges::any_of(tensor.owners, [&state](OptimizerId owner) {
    return state.optimizers().at(owner).steps > 0;
  });
}

bool may_be_target(const ModelState& model, const RunState& state) {
  const bool is_any_stepped =
      std::ranges::any_of(model.tensors, [&state](const RegisteredTensor& registered) {
        const TensorState* tensor = state.tensor(registered.tensor.id);
        return tensor != nullptr && is_stepped(*tensor, state);
      });
  return !is_any_stepped && trained_twin(model, state) != nullptr;
}

bool is_trained(const ModelState& model, const RunState& state) {
  const TensorState* tensor = state.trained_in(model.id);
  return tensor != nullptr && is_stepped(*tensor, state);
}

ModelShapes shapes_of(const ModelState& model) {
  ModelShapes shapes;
  for (const RegisteredTensor& registered : model.tensors) {
    if (!registered.is_buffer) shapes.insert(registered.tensor.shape);
  }
  return shapes;
}

std::string label_behind(const TensorState& tensor, const RunState& state) {
  const ModelState* model = state.model_of(tensor);
  const std::string path = tensor_path(tensor);
  return model == nullptr ? path : fmt::format("{} of {}", path, model->label);
}
}  // namespace

const ModelState* trained_twin(const ModelState& target, const RunState& state) {
  const ModelShapes wanted = shapes_of(target);
  const auto is_twin = [&](const auto& entry) {
    const ModelState& other = entry.second;
    return other.id != target.id && is_trained(other, state) && shapes_of(other) == wanted;
  };
  const auto twin = std::ranges::find_if(state.models(), is_twin);
  return twin == state.models().end() ? nullptr : &twin->second;
}

void say_target(const std::vector<const TensorState*>& parameters, const RunState& state,
                Finding& finding) {
  const TensorState& first = **std::ranges::min_element(
      parameters, {}, [](const TensorState* parameter) { return tensor_path(*parameter); });
  const TensorState* followed = state.tensor(first.follows);
  if (followed != nullptr && std::ranges::all_of(parameters, &TensorState::follows)) {
    finding.why = fmt::format(
        "the program writes them itself with {}, {} from {}: as a target, of which nobody uses the "
        "gradients",
        first.written_by, tensor_path(first), label_behind(*followed, state));
    finding.fixes = {{"run the forward of the target under torch::NoGradGuard", kLikely},
                     {"requires_grad_(false) for its parameters", kLikely}};
    return;
  }
  if (finding.severity == Severity::kNote || !are_whole_model(parameters, state)) return;
  const ModelState* twin = trained_twin(*state.model_of(first), state);
  if (twin == nullptr) return;
  const bool is_written = std::ranges::all_of(parameters, [](const TensorState* parameter) {
    return parameter->was_written || parameter->is_copied;
  });
  finding.severity = is_written ? Severity::kNote : Severity::kWarning;
  finding.why += fmt::format("; {} has the same shapes and is trained{}", twin->label,
                             is_written ? ", and the program writes these itself" : "");
  for (Fix& fix : finding.fixes) fix.applicability = kNeedsDecision;
  finding.fixes.insert(
      finding.fixes.begin(),
      {fmt::format("if it is a target that follows {}: run its forward under torch::NoGradGuard",
                   twin->label),
       is_written ? kLikely : kNeedsDecision});
}

void drop_targets(std::vector<TensorId>& parameters, const RunState& state) {
  std::map<const ModelState*, bool> known;
  std::erase_if(parameters, [&](TensorId id) {
    const TensorState* tensor = state.tensor(id);
    const ModelState* model = tensor == nullptr ? nullptr : state.model_of(*tensor);
    // What an operator was seen to write, and not from another parameter, is updated by gradients.
    if (model == nullptr || !tensor->written_by.empty()) return false;
    const auto [entry, is_new] = known.try_emplace(model, false);
    if (is_new) entry->second = may_be_target(*model, state);
    return entry->second;
  });
}

}  // namespace ddpscope
