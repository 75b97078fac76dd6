#include "checks/gradient_cuts.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <unordered_set>

namespace ddpscope {
namespace {
using Ids = std::unordered_set<TensorId>;

struct Place {
  std::size_t record = 0;
  const OpTrace::Output* output = nullptr;
  bool grad_mode = true;

  /// A target that the parameter computes under a guard says less than what cuts its own path.
  bool is_before(const Place& other) const {
    return grad_mode != other.grad_mode ? grad_mode : record < other.record;
  }
};

/// With grad mode on nothing that read it has a gradient path, but for what is asked to have none.
bool is_frozen(const OpTrace& trace, TensorId leaf) {
  bool is_read = false;
  for (const std::size_t number : trace.consumers_of(leaf)) {
    const OpTrace::Record& record = trace.records()[number];
    const bool is_read_out = std::ranges::any_of(
        record.outputs, [](const auto& output) { return OpTrace::is_number(output.id); });
    const bool is_asked =
        is_read_out || record.op == "data()" || record.op.starts_with("aten::detach");
    if (!record.grad_mode || is_asked) return false;
    if (std::ranges::any_of(record.outputs, &OpTrace::Output::requires_grad)) return false;
    is_read |= std::ranges::any_of(record.outputs, &OpTrace::Output::floating);
  }
  return is_read;
}

/// All tensors whose values went into the roots, with a gradient path or without.
Ids tensors_behind(const OpTrace& trace, const std::vector<TensorId>& roots) {
  Ids behind(roots.begin(), roots.end());
  const auto is_behind = [&](const OpTrace::Output& output) { return behind.contains(output.id); };
  for (auto record = trace.records().rbegin(); record != trace.records().rend(); ++record) {
    if (std::ranges::any_of(record->outputs, is_behind)) {
      behind.insert(record->inputs.begin(), record->inputs.end());
    }
  }
  return behind;
}

/// A loss, or another number that nothing reads. Null where there is none.
const OpTrace::Record* dropped_loss(const OpTrace& trace, const Ids& with_path, const Ids& behind) {
  for (const OpTrace::Record& record : trace.records()) {
    const bool is_loss = record.op.find("_loss") != std::string::npos;
    for (const OpTrace::Output& output : record.outputs) {
      const bool is_one =
          std::ranges::all_of(output.shape, [](std::int64_t size) { return size == 1; });
      const bool is_dropped = with_path.contains(output.id) && !behind.contains(output.id);
      if (is_dropped && is_one && (is_loss || trace.consumers_of(output.id).empty())) {
        return &record;
      }
    }
  }
  return nullptr;
}

/// Where the gradient path from a leaf ends first on the way to the roots. `with_path` is what that
/// path leads to.
std::optional<Place> first_cut(const OpTrace& trace, const Ids& behind, TensorId leaf,
                               Ids* with_path = nullptr) {
  std::optional<Place> first;
  std::vector<TensorId> open = {leaf};
  Ids seen = {leaf};
  while (!open.empty()) {
    const TensorId now = open.back();
    open.pop_back();
    for (const std::size_t number : trace.consumers_of(now)) {
      const OpTrace::Record& record = trace.records()[number];
      for (const OpTrace::Output& output : record.outputs) {
        if (output.requires_grad) {
          if (seen.insert(output.id).second) open.push_back(output.id);
        } else if (const Place place = {number, &output, record.grad_mode};
                   behind.contains(output.id) && (!first || place.is_before(*first))) {
          first = place;
        }
      }
    }
  }
  if (with_path != nullptr) *with_path = std::move(seen);
  return first;
}

/// What cuts reads the leaf itself, and a leaf of this backward of its shape was computed from it.
bool is_replaced(const OpTrace& trace, const Place& place, TensorId leaf,
                 const std::vector<TensorId>& reached) {
  const auto is_leaf = [&](TensorId id) { return trace.leaf_behind(id) == leaf; };
  if (std::ranges::none_of(trace.records()[place.record].inputs, is_leaf)) return false;
  return std::ranges::any_of(reached, [&](TensorId id) {
    const OpTrace::Record* made = trace.record_of(id);
    if (made == nullptr) return false;
    const auto output = std::ranges::find(made->outputs, id, &OpTrace::Output::id);
    return output != made->outputs.end() && output->shape == place.output->shape &&
           tensors_behind(trace, {id}).contains(leaf);
  });
}

std::string cut_cause(const OpTrace::Record& record, const OpTrace::Output& output) {
  if (OpTrace::is_number(output.id)) return "host_value";
  if (!record.grad_mode) return "grad_mode_off";
  return output.floating ? "detach" : "integer_op";
}

void add_starved(const OpTrace& trace, const Place& place, std::uint64_t thread,
                 const std::vector<TensorId>& leaves, GradientCut& cut) {
  const OpTrace::Record& record = trace.records()[place.record];
  cut.cause = cut_cause(record, *place.output);
  cut.op = record.op;
  cut.path = record.path;
  cut.module = record.module;
  cut.shape = place.output->shape;
  cut.stack = record.stack;
  cut.by_view = record.inputs.size() == 1;
  if (cut.cause == "grad_mode_off" && record.thread != thread) return;
  std::ranges::copy(leaves, std::back_inserter(cut.starved));
}

std::vector<GradientCut> cuts_of(std::map<std::size_t, GradientCut>& by_record, bool if_idle) {
  std::vector<GradientCut> cuts;
  for (auto& [number, cut] : by_record) {
    if (cut.starved.empty()) continue;
    cut.if_idle = if_idle;
    cuts.push_back(std::move(cut));
  }
  return cuts;
}
}  // namespace

std::vector<GradientCut> find_cuts(const OpTrace& trace, const BackwardEvent& event,
                                   const std::vector<TensorId>& leaves, bool if_idle) {
  const Ids behind = tensors_behind(trace, event.roots);
  std::map<std::size_t, GradientCut> by_record;
  for (const TensorId leaf : leaves) {
    if (is_frozen(trace, leaf)) continue;
    Ids with_path;
    const std::optional<Place> place = first_cut(trace, behind, leaf, &with_path);
    if (!place.has_value()) continue;
    if (!if_idle && is_replaced(trace, *place, leaf, event.graph.leaves)) continue;
    GradientCut& cut = by_record[place->record];
    add_starved(trace, *place, event.at.thread, {leaf}, cut);
    with_path.erase(leaf);
    const OpTrace::Record* loss = dropped_loss(trace, with_path, behind);
    if (loss == nullptr || cut.cause != "detach") continue;
    cut.dropped_op = loss->op;
    cut.dropped_stack = loss->stack;
  }
  if (if_idle) return cuts_of(by_record, if_idle);
  for (const auto& [id, of_step_before] : trace.carried()) {
    const std::optional<Place> place = first_cut(trace, behind, id);
    if (!place.has_value()) continue;
    add_starved(trace, *place, event.at.thread, of_step_before, by_record[place->record]);
  }
  return cuts_of(by_record, if_idle);
}

std::vector<GradientCut> merged(const std::vector<GradientCut>& cuts) {
  std::vector<GradientCut> merged;
  for (const GradientCut& cut : cuts) {
    const auto same = std::ranges::find_if(merged, [&cut](const GradientCut& other) {
      if (cut.cause != other.cause) return false;
      return cut.cause == "grad_mode_off" || (cut.op == other.op && cut.path == other.path);
    });
    if (same == merged.end()) {
      merged.push_back(cut);
      continue;
    }
    std::vector<TensorId> starved = std::move(same->starved);
    for (const TensorId id : cut.starved) {
      if (std::ranges::find(starved, id) == starved.end()) starved.push_back(id);
    }
    // A view of a weight says less than the operator that reads it.
    if (same->by_view && !cut.by_view) *same = cut;
    same->starved = std::move(starved);
  }
  return merged;
}

std::optional<GradientCut> find_leaf_loss(const OpTrace& trace, const BackwardEvent& event,
                                          const std::vector<TensorId>& leaves) {
  if (leaves.empty()) return std::nullopt;
  std::vector<GradientCut> cuts = find_cuts(trace, event, leaves);
  // A target that is computed under a guard loses no loss its graph.
  const auto cut = std::ranges::find_if(
      cuts, [](const GradientCut& one) { return one.cause != "grad_mode_off"; });
  if (cut != cuts.end()) std::iter_swap(cuts.begin(), cut);
  GradientCut whole = cuts.empty() ? GradientCut{.starved = leaves} : std::move(cuts.front());
  for (std::size_t i = 1; i < cuts.size(); ++i) {
    std::ranges::copy(cuts[i].starved, std::back_inserter(whole.starved));
  }
  whole.cause = "leaf_loss";
  whole.backward = event.stack;
  whole.without_path = cuts.empty();
  return whole;
}

}  // namespace ddpscope
