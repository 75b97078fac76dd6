#include "checks/loss_ops.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace ddpscope {
namespace {
constexpr int kMaxViews = 16;
constexpr std::size_t kMostRecords = 256;

constexpr std::array<std::string_view, 13> kReshapes = {
    "aten::unsqueeze", "aten::unsqueeze_", "aten::view",         "aten::reshape",  "aten::t",
    "aten::transpose", "aten::permute",    "aten::_unsafe_view", "aten::swapaxes", "aten::movedim",
    "aten::unfold",    "aten::mT",         "aten::numpy_T"};
constexpr std::array<std::string_view, 16> kKeepsValues = {
    "aten::slice",   "aten::select",     "aten::narrow", "aten::squeeze",
    "aten::flatten", "aten::unflatten",  "aten::alias",  "aten::expand",
    "aten::to",      "aten::contiguous", "aten::clone",  "aten::_reshape_alias",
    "aten::chunk",   "aten::_to_copy",   "aten::split",  "aten::split_with_sizes"};

template <class Names>
bool is_one_of(const Names& names, std::string_view op) {
  return std::ranges::find(names, op) != names.end();
}

/// Visits the operators behind views of `id` until one is no view, or `visit` returns false.
template <class Visit>
void walk_views(const OpTrace& trace, TensorId id, Visit&& visit) {
  for (int i = 0; i < kMaxViews; ++i) {
    const OpTrace::Record* made = trace.record_of(id);
    if (made == nullptr || !visit(*made)) return;
    const bool is_view = is_one_of(kReshapes, made->op) || is_one_of(kKeepsValues, made->op);
    if (!is_view || made->inputs.empty() || made->inputs.front() == id) return;
    id = made->inputs.front();
  }
}

std::vector<std::int64_t> without_leading_ones(std::vector<std::int64_t> shape) {
  const auto begin = std::ranges::find_if(shape, [](std::int64_t size) { return size != 1; });
  shape.erase(shape.begin(), begin);
  return shape;
}
}  // namespace

const OpTrace::Output* output_of(const OpTrace::Record& made, TensorId id) {
  const auto output = std::ranges::find(made.outputs, id, &OpTrace::Output::id);
  return output == made.outputs.end() ? nullptr : &*output;
}

std::optional<Operand> operand_of(const RunState& state, TensorId id) {
  Operand operand{.id = id};
  const std::vector<std::int64_t>* unexpanded = nullptr;
  if (const OpTrace::Record* made = state.trace().record_of(id)) {
    const OpTrace::Output* output = output_of(*made, id);
    if (output == nullptr) return std::nullopt;
    operand.shape = output->shape;
    operand.requires_grad = output->requires_grad;
    operand.computed = true;
    unexpanded = &output->unexpanded;
  } else if (const TensorState* tensor = state.tensor(id)) {
    operand.shape = tensor->info.shape;
    operand.requires_grad = tensor->info.requires_grad;
    unexpanded = &tensor->info.unexpanded;
  } else {
    return std::nullopt;
  }
  if (!unexpanded->empty()) operand.shape = without_leading_ones(*unexpanded);
  const TensorState* leaf = state.tensor(state.trace().leaf_behind(id));
  operand.registered = leaf != nullptr && !leaf->registrations.empty();
  walk_views(state.trace(), id, [&](const OpTrace::Record& record) {
    operand.reshaped |= is_one_of(kReshapes, record.op);
    return true;
  });
  return operand;
}

const OpTrace::Record* maker_behind_views(const OpTrace& trace, TensorId id) {
  const OpTrace::Record* maker = nullptr;
  walk_views(trace, id, [&](const OpTrace::Record& record) {
    maker = &record;
    return true;
  });
  return maker;
}

std::vector<const OpTrace::Record*> records_before(const OpTrace& trace,
                                                   const std::vector<TensorId>& roots,
                                                   int distance) {
  std::vector<const OpTrace::Record*> found;
  std::unordered_set<const OpTrace::Record*> seen;
  std::vector<const OpTrace::Record*> layer;
  const auto add = [&](const OpTrace::Record* made) {
    if (made != nullptr && seen.insert(made).second) layer.push_back(made);
  };
  for (const TensorId id : roots) add(trace.record_of(id));
  for (int i = 0; i <= distance && !layer.empty(); ++i) {
    found.insert(found.end(), layer.begin(), layer.end());
    for (const OpTrace::Record* record : std::exchange(layer, {})) {
      for (const TensorId id : record->inputs) {
        const bool is_written = output_of(*record, id) != nullptr;
        add(is_written ? trace.record_before(*record, id) : trace.record_of(id));
      }
    }
  }
  return found;
}

const ModelState* model_behind(const OpTrace::Record& record, const RunState& state) {
  std::vector<const OpTrace::Record*> open = {&record};
  std::unordered_set<const OpTrace::Record*> seen = {&record};
  for (std::size_t next = 0; next < open.size() && open.size() < kMostRecords; ++next) {
    for (const TensorId id : open[next]->inputs) {
      const TensorState* leaf = state.tensor(state.trace().leaf_behind(id));
      const bool is_trained = leaf != nullptr && leaf->info.requires_grad;
      if (is_trained && !leaf->registrations.empty()) return state.model_of(*leaf);
      const OpTrace::Record* made = state.trace().record_of(id);
      const OpTrace::Output* output = made == nullptr ? nullptr : output_of(*made, id);
      const bool has_path = output != nullptr && output->requires_grad;
      if (has_path && seen.insert(made).second) open.push_back(made);
    }
  }
  return nullptr;
}

Finding finding_at(const OpTrace::Record& record, const RunState& state) {
  Finding finding;
  finding.phase = Phase::kForward;
  finding.module_path = record.path;
  finding.op = record.op;
  if (const ModulePlace* place = state.place_of(record.module)) {
    finding.model = state.models().at(place->model).label;
  } else if (const ModelState* behind = model_behind(record, state)) {
    finding.model = behind->label;
  } else if (const ModelState* model = state.first_model()) {
    finding.model = model->label;
  }
  return finding;
}

}  // namespace ddpscope
