#include "checks/op_trace.h"

#include <algorithm>

namespace ddpscope {
namespace {
constexpr std::size_t kMaxRecords = 100000;
constexpr std::size_t kMaxNamedOps = 4;

bool contains(const std::vector<TensorId>& ids, TensorId id) {
  return std::ranges::find(ids, id) != ids.end();
}

std::int64_t element_bytes(std::string_view dtype) {
  if (dtype == "Double" || dtype == "ComplexFloat") return 8;
  if (dtype == "Half" || dtype == "BFloat16") return 2;
  return 4;
}

// Some operators, as contiguous(), return an input as it is.
bool may_write(const OpEvent& event) {
  return event.op.ends_with('_') || (event.inputs.size() > 1 && event.op != "aten::type_as");
}

// A view that leaves the gradient path: detach().
bool cuts(const OpEvent& event) {
  return event.grad_mode && std::ranges::none_of(event.outputs, &TensorInfo::requires_grad);
}

void merge(std::optional<std::string>& path, const std::string& other) {
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
  some_by_zero_ = false;
  used_leaves_.clear();
  threads_.clear();
}

TensorId OpTrace::leaf_behind(TensorId id) const {
  const auto view = views_.find(id);
  return view == views_.end() ? id : view->second;
}

void OpTrace::add(const OpEvent& event, const std::optional<std::string>& path) {
  if (event.at.step != step_) clear();
  step_ = event.at.step;
  last_surveyed_cycle_ = event.at.cycle;
  if (event.in_backward || records_.size() >= kMaxRecords) return;
  note_uses(event, path);
  note_writes(event);
  index(event, path);
}

void OpTrace::index(const OpEvent& event, const std::optional<std::string>& path) {
  const std::size_t number = records_.size();
  some_by_zero_ |= event.by_zero;
  Record record{.op = event.op,
                .path = path.value_or(""),
                .grad_mode = event.grad_mode,
                .by_zero = event.by_zero,
                .outputs = {}};
  for (const TensorInfo& output : event.outputs) {
    record.outputs.push_back({.id = output.id,
                              .shape = output.shape,
                              .requires_grad = output.requires_grad,
                              .floating = output.floating,
                              .bytes = output.elements * element_bytes(output.dtype)});
    // An operator that wraps another returns its output: the inner one, which ended first, made it.
    if (contains(event.inputs, output.id)) {
      producer_[output.id] = number;
    } else {
      producer_.try_emplace(output.id, number);
    }
  }
  for (const TensorId input : event.inputs) consumers_[input].push_back(number);
  records_.push_back(std::move(record));
}

void OpTrace::note_writes(const OpEvent& event) {
  if (!trained_ || !may_write(event)) return;
  for (const TensorInfo& output : event.outputs) {
    if (!contains(event.inputs, output.id)) continue;
    TensorState* written = tensors_.find(leaf_behind(output.id));
    if (written == nullptr || written->registrations.empty()) {
      written = tensors_.find(tensors_.registered_in(output.storage));
    }
    if (written != nullptr) written->written_by = event.op;
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
      if (TensorState* leaf = tensors_.find(id)) merge(leaf->use.common_path, *path);
    }
    thread.waiting.clear();
    thread.before = path;
  }
  std::set<TensorId> seen;
  for (const TensorId input : event.inputs) {
    TensorState* leaf = tensors_.find(leaf_behind(input));
    if (leaf == nullptr || !leaf->info.is_leaf || !leaf->info.requires_grad) continue;
    if (!leaf->info.floating || !seen.insert(leaf->info.id).second) continue;
    if (!note_views(event, leaf->info.id)) {
      place(*leaf, event, path);
    } else if (cuts(event)) {
      used_leaves_.insert(leaf->info.id);
      leaf->use.last_cycle = leaf->use.last_grad_mode_cycle = event.at.cycle;
    }
  }
}

void OpTrace::place(TensorState& leaf, const OpEvent& event,
                    const std::optional<std::string>& path) {
  TensorUse& use = leaf.use;
  used_leaves_.insert(leaf.info.id);
  use.last_cycle = event.at.cycle;
  if (event.grad_mode) use.last_grad_mode_cycle = event.at.cycle;
  const bool named = std::ranges::find(use.ops, event.op) != use.ops.end();
  if (!named && use.ops.size() < kMaxNamedOps) use.ops.push_back(event.op);

  if (path.has_value()) {
    merge(use.common_path, *path);
    return;
  }
  Neighbours& thread = threads_[event.at.thread];
  if (thread.before.has_value()) merge(use.common_path, *thread.before);
  thread.waiting.push_back(leaf.info.id);
}

void OpTrace::backward_began(const BackwardEvent& event) {
  if (event.at.step != step_) clear();
  step_ = event.at.step;
  for (auto& [thread, neighbours] : threads_) neighbours.waiting.clear();
  if (!event.surveyed) return;
  const std::unordered_set<TensorId> alive(event.alive_outputs.begin(), event.alive_outputs.end());
  for (const TensorId id : used_leaves_) {
    TensorState* leaf = tensors_.find(id);
    if (leaf == nullptr) continue;
    leaf->use.bytes_before_zero = some_by_zero_ ? bytes_before_zero(id) : std::nullopt;
    if (leaf->reached_step == step_) continue;
    leaf->use.end = path_end(id, alive);
  }
}

const std::vector<std::size_t>& OpTrace::consumers_of(TensorId id) const {
  static const std::vector<std::size_t> kNone;
  const auto found = consumers_.find(id);
  return found == consumers_.end() ? kNone : found->second;
}

std::vector<TensorId> OpTrace::differentiable_next(TensorId id) const {
  std::vector<TensorId> next;
  for (const std::size_t number : consumers_of(id)) {
    for (const Output& output : records_[number].outputs) {
      if (output.requires_grad && output.id != id) next.push_back(output.id);
    }
  }
  return next;
}

/// Whether values computed from `id` without a gradient path enter a gradient path again.
bool OpTrace::goes_on_without_gradient(TensorId id) const {
  std::vector<TensorId> open;
  std::unordered_set<TensorId> seen;
  for (const std::size_t number : consumers_of(id)) {
    for (const Output& output : records_[number].outputs) {
      if (!output.requires_grad && output.floating && output.id != id) open.push_back(output.id);
    }
  }
  while (!open.empty()) {
    const TensorId now = open.back();
    open.pop_back();
    if (!seen.insert(now).second) continue;
    for (const std::size_t number : consumers_of(now)) {
      for (const Output& output : records_[number].outputs) {
        if (output.requires_grad) return true;
        if (output.floating) open.push_back(output.id);
      }
    }
  }
  return false;
}

std::optional<OpTrace::Maker> OpTrace::maker_of(TensorId id) const {
  const auto made = producer_.find(id);
  if (made == producer_.end()) return std::nullopt;
  return Maker{records_[made->second].op, records_[made->second].path};
}

/// The bytes of what is computed from a leaf before every path was multiplied by zero; nothing if
/// some path was not.
std::optional<std::int64_t> OpTrace::bytes_before_zero(TensorId leaf) const {
  std::vector<TensorId> open = {leaf};
  std::unordered_set<TensorId> seen = {leaf};
  std::int64_t bytes = 0;
  while (!open.empty()) {
    const TensorId now = open.back();
    open.pop_back();
    bool goes_on = false;
    for (const std::size_t number : consumers_of(now)) {
      for (const Output& output : records_[number].outputs) {
        if (!output.requires_grad || output.id == now) continue;
        goes_on = true;
        if (records_[number].by_zero || !seen.insert(output.id).second) continue;
        bytes += output.bytes;
        open.push_back(output.id);
      }
    }
    if (!goes_on) return std::nullopt;
  }
  return bytes;
}

std::optional<PathEnd> OpTrace::path_end(TensorId leaf,
                                         const std::unordered_set<TensorId>& alive) const {
  PathEnd end;
  std::vector<TensorId> open = {leaf};
  std::unordered_set<TensorId> seen = {leaf};
  std::optional<std::size_t> last;
  while (!open.empty()) {
    const TensorId now = open.back();
    open.pop_back();
    const std::vector<TensorId> next = differentiable_next(now);
    for (const TensorId id : next) {
      if (seen.insert(id).second) open.push_back(id);
    }
    if (now == leaf) end.differentiable = !next.empty();
    if (!next.empty()) continue;
    end.alive = end.alive || alive.contains(now);
    end.cut = end.cut || goes_on_without_gradient(now);
    if (now == leaf && end.cut) end.op = records_[consumers_of(leaf).front()].op;
    const auto made = producer_.find(now);
    if (now == leaf || made == producer_.end()) continue;
    if (last.has_value() && made->second < *last) continue;
    last = made->second;
    const auto& outputs = records_[*last].outputs;
    end.op = records_[*last].op;
    end.shape = std::ranges::find(outputs, now, &Output::id)->shape;
  }
  return end;
}

}  // namespace ddpscope
