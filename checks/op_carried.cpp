// What operators of the step before made and operators of this one read.
#include <algorithm>

#include "checks/op_trace.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMostCarried = 256;
}  // namespace

void OpTrace::turn_to(std::int64_t step) {
  if (step == step_) return;
  std::unordered_map<TensorId, std::vector<TensorId>> sources;
  if (step == step_ + 1) sources = sources_of_carriers();
  clear();
  step_ = step;
  earlier_sources_ = std::move(sources);
}

/// All that operators read which returned a tensor with a gradient path: one around another returns
/// the same, and knows more of it.
std::unordered_map<TensorId, std::vector<TensorId>> OpTrace::sources_of_carriers() const {
  std::unordered_map<TensorId, std::vector<TensorId>> sources;
  for (const Record& record : records_) {
    for (const Output& output : record.outputs) {
      if (output.requires_grad) sources.try_emplace(output.id);
    }
  }
  for (const Record& record : records_) {
    for (const Output& output : record.outputs) {
      const auto carrier = sources.find(output.id);
      if (carrier == sources.end()) continue;
      carrier->second.insert(carrier->second.end(), record.inputs.begin(), record.inputs.end());
    }
  }
  return sources;
}

/// What operators read on a gradient path, also what the step before computed of it, since the last
/// backward of this step began.
std::unordered_set<TensorId> OpTrace::leaves_awaiting_backward() const {
  std::vector<TensorId> open;
  for (std::size_t number = backward_at_; number < records_.size(); ++number) {
    const Record& record = records_[number];
    if (std::ranges::none_of(record.outputs, &Output::requires_grad)) continue;
    open.insert(open.end(), record.inputs.begin(), record.inputs.end());
  }
  std::unordered_set<TensorId> seen(open.begin(), open.end());
  std::unordered_set<TensorId> leaves;
  const auto follow = [&](const std::vector<TensorId>& inputs) {
    for (const TensorId input : inputs) {
      if (seen.insert(input).second) open.push_back(input);
    }
  };
  while (!open.empty()) {
    const TensorId now = leaf_behind(open.back());
    open.pop_back();
    const TensorState* leaf = tensors_.find(now);
    if (leaf != nullptr && leaf->info.is_leaf && leaf->info.requires_grad) leaves.insert(now);
    if (const Record* made = record_of(now)) {
      const auto output = std::ranges::find(made->outputs, now, &Output::id);
      if (output != made->outputs.end() && output->requires_grad) follow(made->inputs);
    }
    const auto earlier = earlier_sources_.find(now);
    if (earlier != earlier_sources_.end()) follow(earlier->second);
  }
  return leaves;
}

void OpTrace::stepped(OptimizerId optimizer, std::int64_t cycle) {
  for (const TensorId id : leaves_awaiting_backward()) {
    TensorState* leaf = tensors_.find(id);
    const bool is_own = leaf != nullptr && leaf->is_owned_by(optimizer);
    if (is_own && leaf->reached_step != step_) leaf->use.no_backward_cycle = cycle;
  }
  for (const TensorId id : ended_) {
    TensorState* leaf = tensors_.find(id);
    const bool is_own = leaf != nullptr && leaf->is_owned_by(optimizer);
    if (is_own) leaf->use.end_before_step = leaf->use.end;
  }
}

/// The leaves whose gradient path went into a tensor of the step before.
std::vector<TensorId> OpTrace::leaves_before(TensorId carried) const {
  std::vector<TensorId> leaves;
  std::vector<TensorId> open = {carried};
  std::unordered_set<TensorId> seen = {carried};
  while (!open.empty()) {
    const TensorId now = open.back();
    open.pop_back();
    const auto sources = earlier_sources_.find(now);
    if (sources == earlier_sources_.end()) {
      const TensorState* leaf = tensors_.find(now);
      const bool is_trained =
          leaf != nullptr && leaf->info.is_leaf && leaf->info.requires_grad && leaf->info.floating;
      if (is_trained) leaves.push_back(now);
      continue;
    }
    for (const TensorId input : sources->second) {
      if (seen.insert(input).second) open.push_back(input);
    }
  }
  return leaves;
}

void OpTrace::follow_carried(const std::unordered_set<TensorId>& alive) {
  carried_.clear();
  if (earlier_sources_.empty()) return;
  std::size_t followed = 0;
  for (const auto& [id, consumers] : consumers_) {
    if (producer_.contains(id) || !earlier_sources_.contains(id)) continue;
    if (++followed > kMostCarried) return;
    std::vector<TensorId> leaves = leaves_before(id);
    std::erase_if(leaves, [this](TensorId leaf) {
      return used_leaves_.contains(leaf) || tensors_.find(leaf)->reached_step == step_;
    });
    if (leaves.empty()) continue;
    std::optional<PathEnd> end = path_end(id, alive);
    if (end.has_value() && end->cut) {
      end->differentiable = true;
      for (const TensorId leaf : leaves) tensors_.find(leaf)->use.end = end;
      ended_.insert(leaves.begin(), leaves.end());
    }
    carried_.emplace(id, std::move(leaves));
  }
}

}  // namespace ddpscope
