#include "checks/fed_leaves.h"

#include <algorithm>
#include <utility>

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
/// The operator reads nothing else but where to read, as rows.
bool reads_alone(const OpTrace::Record& record, TensorId id, const RunState& state) {
  return std::ranges::all_of(record.inputs, [&](TensorId input) {
    if (input == id) return true;
    const OpTrace::Record* const made = state.trace().record_of(input);
    if (made != nullptr) {
      return std::ranges::none_of(made->outputs, &OpTrace::Output::floating);
    }
    const TensorState* const other = state.tensor(input);
    return other != nullptr && !other->info.floating;
  });
}

/// Layers read its values, or rows of them, behind detach(): nobody detaches what is to be trained
/// on its way into a layer, whatever else is made of it, as a target.
bool is_fed_detached(TensorId leaf, const RunState& state) {
  const OpTrace& trace = state.trace();
  std::vector<std::pair<TensorId, bool>> open = {{leaf, false}};
  for (std::size_t next = 0; next < open.size() && open.size() < kMostBeforeLayer; ++next) {
    const auto [id, detached] = open[next];
    for (const std::size_t index : trace.consumers_of(id)) {
      const OpTrace::Record& record = trace.records()[index];
      if (detached && is_input_of_layer(record, id, state)) return true;
      if (!reads_alone(record, id, state)) continue;
      for (const OpTrace::Output& made : record.outputs) {
        if (made.id != id) open.emplace_back(made.id, detached || record.op == "aten::detach");
      }
    }
  }
  return false;
}
}  // namespace

void FedLeaves::see(const RunState& state) {
  for (const TensorState* leaf : state.loose_leaves()) {
    const TensorId id = leaf->info.id;
    if (state.trace().consumers_of(id).empty()) continue;
    const bool may_be_fed = state.loose_module_type(id).empty();
    if (may_be_fed && (is_fed(id, state) || is_fed_detached(id, state))) {
      fed_.insert(id);
    } else {
      fed_.erase(id);
    }
  }
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
