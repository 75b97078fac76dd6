#include "checks/fed_leaves.h"

#include <algorithm>

namespace ddpscope {

bool reads_registered(const OpTrace::Record& record, const RunState& state) {
  return std::ranges::any_of(record.inputs, [&state](TensorId input) {
    const TensorState* tensor = state.tensor(state.trace().leaf_behind(input));
    return tensor != nullptr && !tensor->registrations.empty();
  });
}

namespace {
/// As the input of a registered layer.
bool is_input_of_layer(const OpTrace::Record& record, TensorId id, const RunState& state) {
  const std::size_t place = record.op == "aten::addmm" ? 1 : 0;  // behind the bias
  return record.inputs.size() > place && record.inputs[place] == id &&
         reads_registered(record, state);
}

constexpr int kMostBeforeLayer = 8;  // operators

bool is_unregistered_leaf(TensorId id, const RunState& state) {
  const TensorState* const tensor = state.tensor(state.trace().leaf_behind(id));
  return tensor != nullptr && tensor->info.requires_grad && tensor->info.is_leaf &&
         tensor->registrations.empty() && state.loose_module_type(tensor->info.id).empty();
}

/// It is such a leaf, or an operator made it of these alone, as a column, a copy or a list of them.
bool is_made_of_leaves(TensorId id, const RunState& state, int operators) {
  if (is_unregistered_leaf(id, state)) return true;
  const OpTrace::Record* const maker = state.trace().record_of(id);
  return maker != nullptr && !maker->inputs.empty() && operators > 0 &&
         std::ranges::all_of(maker->inputs, [&](TensorId input) {
           return is_made_of_leaves(input, state, operators - 1);
         });
}

bool is_fed(TensorId id, const RunState& state, int operators) {
  const OpTrace& trace = state.trace();
  bool is_read = false;
  for (const std::size_t index : trace.consumers_of(id)) {
    const OpTrace::Record& record = trace.records()[index];
    if (std::ranges::none_of(record.outputs, &OpTrace::Output::requires_grad)) continue;
    const auto goes_on = [&](const OpTrace::Output& made) {
      return made.id == id || (operators > 0 && is_fed(made.id, state, operators - 1));
    };
    const bool is_passed_on = std::ranges::all_of(record.inputs, [&](TensorId input) {
      return is_made_of_leaves(input, state, kMostBeforeLayer);
    });
    const bool fits = is_passed_on ? std::ranges::all_of(record.outputs, goes_on)
                                   : is_input_of_layer(record, id, state);
    if (!fits) return false;
    is_read = true;
  }
  return is_read;
}

}  // namespace

bool is_fed_to_layers(const TensorState& tensor, const RunState& state) {
  return state.loose_module_type(tensor.info.id).empty() &&
         is_fed(tensor.info.id, state, kMostBeforeLayer);
}

// A parameter is read in each forward. Where a graph of earlier is kept, autograd-graph-retained
// tells. The surveyed cycle may be in progress.
bool lies_behind_history(const TensorState& tensor, const RunState& state) {
  const std::int64_t surveyed = state.last_surveyed_cycle();
  return tensor.use.last_cycle > 0 && tensor.use.last_cycle < surveyed &&
         tensor.gradient_cycle + 1 >= surveyed;
}

std::vector<Fix> fixes_of_fed() {
  return {{"data: leave requires_grad off where nothing reads its gradient, or declare it external",
           Applicability::kNeedsDecision},
          {"learnable: register_parameter(name, tensor)", Applicability::kNeedsDecision}};
}

}  // namespace ddpscope
