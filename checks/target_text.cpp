#include "checks/target_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "checks/held_copy.h"
#include "checks/subtree.h"

namespace ddpscope {
namespace {
using enum Applicability;
using ModelShapes = std::multiset<std::vector<std::int64_t>>;

bool is_trained(const ModelState& model, const RunState& state) {
  const TensorState* tensor = state.trained_in(model.id);
  return tensor != nullptr && !tensor->owners.empty();
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
  if (finding.severity != Severity::kError || !are_whole_model(parameters, state)) return;
  const ModelState* twin = trained_twin(*state.model_of(first), state);
  if (twin == nullptr) return;
  for (Fix& fix : finding.fixes) fix.applicability = kNeedsDecision;
  finding.fixes.push_back(
      {fmt::format("if it is a target that follows {}: run its forward under torch::NoGradGuard",
                   twin->label),
       kNeedsDecision});
}

}  // namespace ddpscope
