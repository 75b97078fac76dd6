#include "plugin/training_graph.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

namespace ddpscope {
namespace {
/// Modes are told beside surveys, too: these may be few.
bool is_mode_told(std::int64_t step) { return step <= 64 && step % 8 == 0; }

/// Ever fewer are told, as where each step is surveyed: what else ranks leave lasts longer then.
std::int64_t gap_before(std::int64_t step) {
  return step <= 8 ? 1 : std::max<std::int64_t>(16, step / 8);
}

/// Layers that work in another way in eval mode.
bool depends_on_mode(std::string_view type) {
  return type.find("Dropout") != std::string_view::npos ||
         type.find("BatchNorm") != std::string_view::npos;
}

template <class T>
const T* held(const Event& event) {
  const auto* pointer = std::get_if<std::unique_ptr<T>>(&event);
  return pointer == nullptr ? nullptr : pointer->get();
}
}  // namespace

void TrainingGraph::saw(const Event& event, const RunState& state) {
  if (const auto* backward = held<BackwardEvent>(event)) return on(*backward, state);
  if (std::holds_alternative<DroppedEvent>(event)) lost_ = true;
  const auto* const end = std::get_if<StepEndEvent>(&event);
  if (end == nullptr) return;
  const std::int64_t step = end->at.step;
  const bool is_due = !lost_ && !graph_.operators.empty() && step - told_ >= gap_before(step);
  if (end->whole && (is_due || is_mode_told(step))) {
    if (is_due) told_ = step;
    if (!is_due) graph_ = {};
    add_modes(state);
    blob_({.kind = BlobKind::kGraph, .number = 0, .step = step, .bytes = encode(graph_)});
  }
  graph_ = {};
  lost_ = false;
}

void TrainingGraph::on(const BackwardEvent& event, const RunState& state) {
  if (!event.surveyed || !event.accumulates) return;
  lost_ |= event.roots.empty();
  add_operators(event.roots, state);
}

void TrainingGraph::add_operators(std::vector<TensorId> next, const RunState& state) {
  std::unordered_set<TensorId> seen(next.begin(), next.end());
  while (!next.empty()) {
    const TensorId id = next.back();
    next.pop_back();
    const OpTrace::Record* const made = state.trace().record_of(id);
    if (made == nullptr || !made->grad_mode) continue;
    graph_.operators.insert({made->path, made->op});
    for (const TensorId input : made->inputs) {
      if (seen.insert(input).second) next.push_back(input);
    }
  }
}

void TrainingGraph::add_modes(const RunState& state) {
  for (const auto& [id, model] : state.models()) {
    if (!state.gradient_reached(id)) continue;
    for (const ModuleInfo& module : model.modules) {
      if (module.training || !depends_on_mode(module.type)) continue;
      if (!state.declared(id, module.path, "intended")) graph_.in_eval.insert({module.path, ""});
    }
  }
}

}  // namespace ddpscope
