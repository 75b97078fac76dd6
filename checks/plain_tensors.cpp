#include "checks/plain_tensors.h"

#include <algorithm>
#include <map>

#include "checks/op_writes.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxCombined = 8;

/// The registered tensor of which `id` is a view, or which it is.
const TensorState* registered_behind(const RunState& state, TensorId id) {
  const TensorState* tensor = state.tensor(state.trace().leaf_behind(id));
  return tensor != nullptr && !tensor->registrations.empty() ? tensor : nullptr;
}

bool is_plain(const RunState& state, TensorId id) {
  const TensorState* tensor = state.tensor(id);
  return tensor != nullptr && tensor->info.is_leaf && !tensor->info.requires_grad &&
         tensor->info.floating && tensor->registrations.empty() && tensor->owners.empty();
}

/// What a view lies in.
TensorId whole_of(const RunState& state, TensorId id) {
  const TensorState* tensor = state.tensor(id);
  return tensor == nullptr || tensor->info.view_of == 0 ? id : tensor->info.view_of;
}

bool is_returned(const OpEvent& event, TensorId id) {
  return std::ranges::find(event.outputs, id, &TensorInfo::id) != event.outputs.end();
}

bool writes(const OpEvent& event, TensorId id) {
  return is_returned(event, id) && writes_output(event.op, event.inputs, event.outputs.size(), id);
}

/// As it is.
bool is_passed_on(const OpEvent& event, TensorId id) {
  return std::ranges::find(event.inputs, id) != event.inputs.end() && !writes(event, id);
}

/// As broadcast_tensors() of equal shapes.
bool only_passes_on(const OpEvent& event) {
  return !event.outputs.empty() &&
         std::ranges::all_of(event.outputs, [&event](const TensorInfo& output) {
           return is_passed_on(event, output.id);
         });
}

bool reads_only(const OpEvent& event, TensorId id) {
  return std::ranges::all_of(event.inputs, [id](TensorId input) { return input == id; });
}
}  // namespace

std::unordered_map<TensorId, PlainTensors::Use> PlainTensors::take() {
  computed_.clear();
  combined_.clear();
  std::erase_if(uses_,
                [](const auto& entry) { return !entry.second.confirmed || entry.second.is_input; });
  return std::exchange(uses_, {});
}

// A copy puts a new value in place of the old one, as recurrent states do; a statistic goes on.
void PlainTensors::note_writes(const OpEvent& event, const RunState& state) {
  if (event.op == "aten::copy_") return;
  for (const TensorId input : event.inputs) {
    if (writes(event, input) && is_plain(state, input)) uses_[input].written = true;
  }
}

PlainTensors::Use& PlainTensors::use_of(TensorId id, TensorId read, const OpEvent& event,
                                        const RunState& state) {
  Use& use = uses_[id];
  if (use.op.empty()) {
    use.op = event.op;
    use.read = read;
    use.offset_bytes = state.tensor(read)->info.storage_offset_bytes;
  }
  if (use.path.empty()) use.path = state.path_of(event).value_or("");
  return use;
}

void PlainTensors::add(const OpEvent& event, const RunState& state) {
  if (event.in_backward) return;
  if (event.at.step != step_) {
    take();
    step_ = event.at.step;
  }
  note_writes(event, state);
  if (!event.grad_mode || only_passes_on(event)) return;
  bool reads_registered = false, reads_parameter = false, reads_computed = false;
  std::map<TensorId, TensorId> plain;  // and what was read of each
  std::set<TensorId> combined;
  for (const TensorId input : event.inputs) {
    const TensorState* registered = registered_behind(state, input);
    reads_registered |= registered != nullptr;
    reads_parameter |= registered != nullptr && !registered->is_buffer;
    reads_computed |= computed_.contains(input);
    const bool is_scaled = is_returned(event, input) && reads_only(event, input);
    const TensorId whole = whole_of(state, input);
    if (is_plain(state, whole) && !is_scaled) plain.emplace(whole, input);
    if (const auto found = combined_.find(input); found != combined_.end()) {
      combined.insert(found->second.begin(), found->second.end());
    }
  }
  if (reads_registered) {
    for (const TensorId id : combined) uses_[id].confirmed = true;
  }
  for (const auto& [id, read] : plain) {
    use_of(id, read, event, state).is_input |= !reads_computed;
    if (combined.size() < kMaxCombined) combined.insert(id);
  }
  for (const TensorInfo& output : event.outputs) {
    if (plain.contains(output.id) || is_passed_on(event, output.id)) continue;
    // A view of a parameter, as the transposed weight of a layer, is not computed.
    const bool is_view = registered_behind(state, output.id) != nullptr;
    if ((reads_parameter || reads_computed) && !is_view) computed_.insert(output.id);
    if (!combined.empty()) combined_[output.id] = combined;
  }
}

}  // namespace ddpscope
