#include "checks/op_trace.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "checks/byte_text.h"
#include "checks/op_writes.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxRecords = 100000;
constexpr std::size_t kMaxNamedOps = 4;

// The inputs whose values matter: of some operators only shape and type do.
std::vector<TensorId> inputs_read(const OpEvent& event) {
  if (event.op.ends_with("_like") || event.op.find("::new_") != std::string::npos) return {};
  if (event.op.ends_with("_as") && event.inputs.size() > 1) return {event.inputs.front()};
  return event.inputs;
}

// Round numbers are often equal by chance.
bool is_telling(double number) {
  const double scaled = number * 1024;
  return std::isfinite(scaled) && scaled != std::trunc(scaled);
}

// A view that leaves the gradient path: detach().
bool cuts(const OpEvent& event) {
  return event.grad_mode && std::ranges::none_of(event.outputs, &TensorInfo::requires_grad);
}

void merge(TensorTable& tensors, TensorState& leaf, const std::string& other) {
  std::optional<std::string>& path = leaf.use.common_path;
  tensors.note_path(leaf);
  path = path.has_value() ? common_path(*path, other) : other;
}
}  // namespace

std::string common_path(std::string_view a, std::string_view b) {
  std::size_t common = 0;
  for (std::size_t i = 0; i <= std::min(a.size(), b.size()); ++i) {
    const bool a_ends = i == a.size() || a[i] == '.';
    const bool b_ends = i == b.size() || b[i] == '.';
    if (a_ends && b_ends) common = i;
    if (i == a.size() || i == b.size() || a[i] != b[i]) break;
  }
  return std::string(a.substr(0, common));
}

void OpTrace::clear() {
  records_.clear();
  consumers_.clear();
  producer_.clear();
  views_.clear();
  carriers_.clear();
  numbers_.clear();
  some_by_zero_ = false;
  used_leaves_.clear();
  backward_at_ = 0;
  threads_.clear();
  earlier_sources_.clear();
  carried_.clear();
}

TensorId OpTrace::leaf_behind(TensorId id) const {
  const auto view = views_.find(id);
  return view == views_.end() ? id : view->second;
}

void OpTrace::add(const OpEvent& event, const std::optional<std::string>& path) {
  turn_to(event.at.step);
  last_surveyed_cycle_ = event.at.cycle;
  if (event.op == "aten::_has_compatible_shallow_copy_type") return;  // reads no values
  if (event.in_backward || records_.size() >= kMaxRecords) return;
  note_uses(event, path);
  note_writes(event);
  index(event, path.value_or(""));
}

void OpTrace::index(const OpEvent& event, const std::string& path) {
  some_by_zero_ |= event.by_zero;
  index_data(event, path);
  Record record{.op = event.op,
                .path = path,
                .module = event.module,
                .thread = event.at.thread,
                .stack = event.stack,
                .grad_mode = event.grad_mode,
                .by_zero = event.by_zero,
                .dim = event.dim,
                .inputs = inputs_read(event)};
  for (const TensorInfo& output : event.outputs) {
    record.outputs.push_back({.id = output.id,
                              .shape = output.shape,
                              .requires_grad = output.requires_grad,
                              .floating = output.floating,
                              .bytes = bytes_of(output),
                              .unexpanded = output.unexpanded});
    if (output.requires_grad) carriers_.try_emplace(output.storage, output.id);
  }
  index_numbers(event, record);
  keep(std::move(record));
}

void OpTrace::keep(Record record) {
  const std::size_t number = records_.size();
  for (const Output& output : record.outputs) {
    // An operator that wraps another returns its output: the inner one, which ended first, made it.
    if (writes_output(record.op, record.inputs, record.outputs.size(), output.id)) {
      producer_[output.id] = number;
    } else {
      producer_.try_emplace(output.id, number);
    }
  }
  for (const TensorId input : record.inputs) consumers_[input].push_back(number);
  records_.push_back(std::move(record));
}

/// What `data()` returned is met where it enters an operator.
void OpTrace::index_data(const OpEvent& event, const std::string& path) {
  for (const TensorId id : event.inputs) {
    const TensorState* input = tensors_.find(id);
    if (input == nullptr || input->info.requires_grad || producer_.contains(id)) continue;
    if (input->info.storage == 0 || !input->registrations.empty()) continue;
    TensorId source = tensors_.registered_in(input->info);
    if (const auto carrier = carriers_.find(input->info.storage); carrier != carriers_.end()) {
      source = carrier->second;
    } else if (source == 0 || !tensors_.find(source)->info.requires_grad) {
      continue;
    }
    // Handed on like this it was read.
    TensorState* read = tensors_.find(leaf_behind(source));
    if (read != nullptr && read->info.is_leaf && event.grad_mode) {
      used_leaves_.insert(read->info.id);
      read->use.last_cycle = read->use.last_grad_mode_cycle = event.at.cycle;
    }
    keep({.op = "data()",
          .path = path,
          .module = event.module,
          .thread = event.at.thread,
          .stack = event.stack,
          .inputs = {source},
          .outputs = {{.id = id, .shape = input->info.shape, .floating = input->info.floating}}});
  }
}

/// The number of a parameter is no round one by chance: its own gradient is looked for.
bool OpTrace::reads_parameter(const OpEvent& event) const {
  if (event.read == 0.0 || event.inputs.size() != 1) return false;
  const TensorState* leaf = tensors_.find(leaf_behind(event.inputs.front()));
  return leaf != nullptr && leaf->info.is_leaf && leaf->info.requires_grad;
}

/// A number that was read from a tensor is followed into operators that have it as an argument.
void OpTrace::index_numbers(const OpEvent& event, Record& record) {
  if (event.read.has_value() && (is_telling(*event.read) || reads_parameter(event))) {
    const auto number = numbers_.try_emplace(*event.read, kFirstNumber + numbers_.size()).first;
    record.outputs.push_back({.id = number->second, .floating = true});
  }
  for (const double constant : event.constants) {
    if (numbers_.contains(constant)) record.inputs.push_back(numbers_.at(constant));
  }
}

std::vector<TensorId> OpTrace::last_outputs(const Stamp& at) const {
  std::vector<TensorId> ids;
  if (at.step != step_) return ids;
  const auto last = std::find_if(records_.rbegin(), records_.rend(), [&](const Record& record) {
    return record.thread == at.thread && !record.outputs.empty();
  });
  if (last == records_.rend()) return ids;
  for (const Output& output : last->outputs) ids.push_back(output.id);
  return ids;
}

TensorState* OpTrace::registered_behind(TensorId id, const TensorInfo& memory) const {
  TensorState* leaf = tensors_.find(leaf_behind(id));
  if (leaf != nullptr && !leaf->registrations.empty()) return leaf;
  return tensors_.find(tensors_.registered_in(memory));
}

void OpTrace::note_writes(const OpEvent& event) {
  for (std::size_t place = 0; place < event.outputs.size(); ++place) {
    const TensorInfo& output = event.outputs[place];
    if (!writes_output(event.op, event.inputs, event.outputs.size(), output.id)) continue;
    TensorState* written = registered_behind(output.id, output);
    if (written == nullptr) written = tensors_.find(leaf_behind(output.id));
    // What nobody trained yet is initialized.
    if (written == nullptr || (written->registrations.empty() && written->reached_steps == 0)) {
      continue;
    }
    if (trained_) {
      written->written_by = event.op;
      written->follows = followed_in(event, place, *written);
      written->written_step = event.at.step;
    }
    if (event.op != "aten::copy_" || event.inputs.size() < 2) continue;
    const TensorState* from = tensors_.find(event.inputs[1]);
    const TensorState* source =
        from == nullptr ? nullptr : registered_behind(from->info.id, from->info);
    written->is_copied |= source != nullptr && source != written;
  }
}

/// Whether the operator only made another view of the leaf, or wrote into it.
bool OpTrace::note_views(const OpEvent& event, TensorId leaf) {
  const TensorState* state = tensors_.find(leaf);
  const std::uint64_t storage = state->info.storage;
  bool is_view = false;
  for (const TensorInfo& output : event.outputs) {
    const bool shares = storage != 0 && output.storage == storage;
    if (output.id != leaf && !shares) continue;
    is_view = true;
    if (output.id != leaf && output.requires_grad) views_.try_emplace(output.id, leaf);
  }
  return is_view;
}

void OpTrace::note_uses(const OpEvent& event, const std::optional<std::string>& path) {
  Neighbours& thread = threads_[event.at.thread];
  if (path.has_value()) {
    for (const TensorId id : thread.waiting) {
      if (TensorState* leaf = tensors_.find(id)) merge(tensors_, *leaf, *path);
    }
    thread.waiting.clear();
    thread.before = path;
  }
  std::set<TensorId> seen;
  for (const TensorId input : inputs_read(event)) {
    TensorState* leaf = tensors_.find(leaf_behind(input));
    if (leaf == nullptr || !leaf->info.is_leaf || !leaf->info.requires_grad) continue;
    if (!leaf->info.floating || !seen.insert(leaf->info.id).second) continue;
    if (!note_views(event, leaf->info.id)) {
      place(*leaf, event, path);
    } else if (cuts(event)) {
      used_leaves_.insert(leaf->info.id);
      leaf->use.last_cycle = leaf->use.last_grad_mode_cycle = event.at.cycle;
    } else if (!event.grad_mode) {
      used_leaves_.insert(leaf->info.id);
    }
  }
}

void OpTrace::place(TensorState& leaf, const OpEvent& event,
                    const std::optional<std::string>& path) {
  TensorUse& use = leaf.use;
  used_leaves_.insert(leaf.info.id);
  if (use.last_cycle != event.at.cycle) ++use.cycles;
  use.last_cycle = event.at.cycle;
  if (event.grad_mode) {
    use.last_grad_mode_cycle = event.at.cycle;
  } else {
    ++use.reads_without_grad;
  }
  const bool named = std::ranges::find(use.ops, event.op) != use.ops.end();
  if (!named && use.ops.size() < kMaxNamedOps) use.ops.push_back(event.op);

  if (path.has_value()) {
    use.is_inside = true;
    merge(tensors_, leaf, *path);
    return;
  }
  Neighbours& thread = threads_[event.at.thread];
  if (thread.before.has_value()) merge(tensors_, leaf, *thread.before);
  thread.waiting.push_back(leaf.info.id);
}

void OpTrace::backward_began(const BackwardEvent& event) {
  turn_to(event.at.step);
  ended_.clear();
  backward_at_ = records_.size();
  for (auto& [thread, neighbours] : threads_) neighbours.waiting.clear();
  if (!event.surveyed) return;
  carriers_.clear();  // memory that dies now may be used again
  leaf_roots_.clear();
  if (event.roots_are_leaves) leaf_roots_.insert(event.roots.begin(), event.roots.end());
  const std::unordered_set<TensorId> alive(event.alive_outputs.begin(), event.alive_outputs.end());
  for (const TensorId id : used_leaves_) {
    TensorState* leaf = tensors_.find(id);
    if (leaf == nullptr) continue;
    leaf->use.bytes_before_zero = some_by_zero_ ? bytes_before_zero(id) : std::nullopt;
    if (leaf->reached_step == step_) continue;
    leaf->use.end = path_end(id, alive);
    ended_.insert(id);
  }
  follow_carried(alive);
}

}  // namespace ddpscope
