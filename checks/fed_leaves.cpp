#include "checks/fed_leaves.h"

#include <algorithm>
#include <set>

#include "checks/made_of.h"

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

constexpr std::size_t kMostBeforeLayer = 256;  // tensors

bool is_unregistered_leaf(TensorId id, const RunState& state) {
  const TensorState* const tensor = state.tensor(id);
  return tensor != nullptr && tensor->info.requires_grad && tensor->info.is_leaf &&
         tensor->registrations.empty() && state.loose_module_type(id).empty();
}

/// The operator reads such leaves, and what was made of them alone, as a column, a copy or a list.
bool reads_leaves_alone(const OpTrace::Record& record, const RunState& state) {
  return std::ranges::all_of(record.inputs, [&](TensorId input) {
    return is_made_of(
        input, state, [&](TensorId source) { return is_unregistered_leaf(source, state); },
        [](TensorId) { return false; });
  });
}

/// Layers read what is made of it, and nothing is left unread.
bool is_fed(TensorId leaf, const RunState& state) {
  const OpTrace& trace = state.trace();
  std::vector<TensorId> open = {leaf};
  std::set<TensorId> seen = {leaf};
  while (!open.empty()) {
    const TensorId id = open.back();
    open.pop_back();
    bool is_read = false;
    for (const std::size_t index : trace.consumers_of(id)) {
      const OpTrace::Record& record = trace.records()[index];
      if (std::ranges::none_of(record.outputs, &OpTrace::Output::requires_grad)) continue;
      is_read = true;
      if (!reads_leaves_alone(record, state)) {
        if (!is_input_of_layer(record, id, state)) return false;
        continue;
      }
      for (const OpTrace::Output& made : record.outputs) {
        if (seen.insert(made.id).second) open.push_back(made.id);
      }
    }
    if (!is_read || seen.size() > kMostBeforeLayer) return false;
  }
  return true;
}
}  // namespace

bool is_fed_to_layers(const TensorState& tensor, const RunState& state) {
  return state.loose_module_type(tensor.info.id).empty() && is_fed(tensor.info.id, state);
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
