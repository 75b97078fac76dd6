#include "checks/missing_cause.h"

#include <algorithm>
#include <map>

#include "checks/subtree.h"

namespace ddpscope {

bool expects_gradient(const RunState& state, const TensorState& tensor) {
  if (tensor.registrations.empty() || !state.eligible(tensor)) return false;
  // Before any optimizer has stepped, none of them is one that only the other phase uses.
  const bool some_stepped = std::ranges::any_of(
      state.optimizers(), [](const auto& entry) { return entry.second.steps > 0; });
  if (some_stepped && state.waits_for_first_step(tensor)) return false;
  const Registration& at = tensor.registrations.front();
  if (state.declared(at.model, tensor_path(tensor), "external")) return false;
  for (const OptimizerId owner : tensor.owners) {
    for (const auto& group : state.optimizers().at(owner).groups) {
      const auto member = std::ranges::find(group, tensor.info.id, &OptimizerMember::tensor);
      if (member != group.end() && member->grad_defined) return false;
    }
  }
  return true;
}

MissingCause missing_cause_of(const RunState& state, const TensorState& tensor) {
  const std::int64_t begin = state.now().cycle - kMissingCycles;
  const TensorUse& use = tensor.use;
  if (tensor.undefined_cycle > begin) return {.name = "function_returned_nothing"};
  if (state.last_surveyed_cycle() <= begin) return {};
  if (use.last_cycle <= begin) return {.name = "not_used"};
  const std::string first_op = use.ops.empty() ? "" : use.ops.front();
  if (use.last_grad_mode_cycle <= begin) return {.name = "grad_mode_off", .op = first_op};
  if (!use.end.has_value()) return {};
  if (use.end->cut) {
    return {.name = "cut",
            .op = use.end->op,
            .shape = use.end->shape,
            .cut_op = use.end->cut_op,
            .cut_stack = use.end->cut_stack};
  }
  if (!use.end->differentiable) return {.name = "not_used"};
  return {.name = use.end->alive ? "output_not_in_loss" : "result_dropped",
          .op = use.end->op,
          .shape = use.end->shape};
}

MissingWords words_of(const std::string& cause) {
  using enum Applicability;
  const std::map<std::string, MissingWords> words = {
      {"not_used",
       {"no operator with a gradient path read them",
        {{"remove the layer or call it", kNeedsDecision},
         {"freeze it before averaging starts", kLikely}}}},
      {"grad_mode_off",
       {"only operators with grad mode off read them, the first {}",
        {{"requires_grad_(false), if it is to stay frozen", kLikely},
         {"end the torch::NoGradGuard before this layer runs", kNeedsDecision}}}},
      {"cut",
       {"what follows {} went on without a gradient path",
        {{"remove detach() or the guard on the way", kNeedsDecision}}}},
      {"output_not_in_loss",
       {"they ran; the output of {} was still alive at backward and entered no loss",
        {{"add the output to the loss", kLikely}, {"do not compute it", kLikely}}}},
      {"result_dropped",
       {"they ran; the output of {} was gone before backward began",
        {{"use the result of that operator", kLikely}, {"do not compute it", kLikely}}}},
      {"function_returned_nothing",
       {"backward reached them, and the function before them returned no gradient",
        {{"return a gradient for each input of the function", kLikely}}}},
      {"",
       {"candidates: not_used, output_not_in_loss, result_dropped; no operator record covers these "
        "cycles; next: DDPSCOPE=level=stacks records the operators of every step"}}};
  return words.at(cause);
}

}  // namespace ddpscope
