#include "checks/plain_tensors.h"

#include <algorithm>

namespace ddpscope {
namespace {
constexpr std::size_t kMaxCombined = 8;

bool is_registered(const RunState& state, TensorId id) {
  const TensorState* tensor = state.tensor(state.trace().leaf_behind(id));
  return tensor != nullptr && !tensor->registrations.empty();
}

bool is_plain(const RunState& state, TensorId id) {
  const TensorState* tensor = state.tensor(id);
  return tensor != nullptr && tensor->info.is_leaf && !tensor->info.requires_grad &&
         tensor->info.floating && tensor->registrations.empty() && tensor->owners.empty();
}
}  // namespace

std::unordered_map<TensorId, PlainTensors::Use> PlainTensors::take() {
  computed_.clear();
  combined_.clear();
  std::erase_if(uses_,
                [](const auto& entry) { return !entry.second.confirmed || entry.second.is_input; });
  return std::exchange(uses_, {});
}

void PlainTensors::add(const OpEvent& event, const RunState& state) {
  if (event.in_backward || !event.grad_mode) return;
  if (event.at.step != step_) {
    take();
    step_ = event.at.step;
  }
  bool reads_registered = false;
  bool reads_computed = false;
  std::set<TensorId> plain;
  std::set<TensorId> combined;
  for (const TensorId input : event.inputs) {
    reads_registered |= is_registered(state, input);
    reads_computed |= computed_.contains(input);
    if (is_plain(state, input)) plain.insert(input);
    if (const auto found = combined_.find(input); found != combined_.end()) {
      combined.insert(found->second.begin(), found->second.end());
    }
  }
  if (reads_registered) {
    for (const TensorId id : combined) uses_[id].confirmed = true;
  }
  for (const TensorId id : plain) {
    Use& use = uses_[id];
    if (use.op.empty()) use.op = event.op;
    if (use.path.empty()) use.path = state.path_of(event).value_or("");
    use.is_input |= !reads_computed;
    use.written |= std::ranges::find(event.outputs, id, &TensorInfo::id) != event.outputs.end();
    if (combined.size() < kMaxCombined) combined.insert(id);
  }
  for (const TensorInfo& output : event.outputs) {
    if (plain.contains(output.id)) continue;
    if (reads_registered || reads_computed) computed_.insert(output.id);
    if (!combined.empty()) combined_[output.id] = combined;
  }
}

}  // namespace ddpscope
