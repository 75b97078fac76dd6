// The walks of `OpTrace` along what operators read and return.
#include <algorithm>

#include "checks/op_trace.h"

namespace ddpscope {

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

/// Whether values of this tensor enter a gradient path again, or become a loss that is a leaf.
bool OpTrace::enters_gradient_path(TensorId id) const {
  if (leaf_roots_.contains(id)) return true;
  std::vector<TensorId> open = {id};
  std::unordered_set<TensorId> seen = {id};
  while (!open.empty()) {
    const TensorId now = open.back();
    open.pop_back();
    for (const std::size_t number : consumers_of(now)) {
      for (const Output& output : records_[number].outputs) {
        if (output.requires_grad || leaf_roots_.contains(output.id)) return true;
        if (seen.insert(output.id).second) open.push_back(output.id);
      }
    }
  }
  return false;
}

/// The operator after which values of `id` go on without a gradient path and enter one again; with
/// grad mode on, if some do.
const OpTrace::Record* OpTrace::cut_after(TensorId id) const {
  const Record* under_guard = nullptr;
  for (const std::size_t number : consumers_of(id)) {
    for (const Output& output : records_[number].outputs) {
      if (output.requires_grad || output.id == id) continue;
      if (!enters_gradient_path(output.id)) continue;
      if (records_[number].grad_mode) return &records_[number];
      if (under_guard == nullptr) under_guard = &records_[number];
    }
  }
  return under_guard;
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
    if (const Record* cut = end.cut ? nullptr : cut_after(now)) {
      end.cut = true;
      end.cut_op = cut->op;
      end.cut_stack = cut->stack;
      end.read_without_grad = !cut->grad_mode && leaf_behind(now) == leaf;
    }
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
