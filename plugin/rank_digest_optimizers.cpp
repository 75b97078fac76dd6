#include <algorithm>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "model/hash.h"
#include "plugin/rank_digest.h"

namespace ddpscope {
namespace {
void add_to(Hash& hash, const OptimizerState& optimizer) {
  hash.add(std::string_view(optimizer.type));
  hash.add(std::uint64_t{optimizer.groups.size()});
  for (const GroupOptions& options : optimizer.options) {
    hash.add(options.learning_rate);
    hash.add(options.weight_decay);
    hash.add(options.momentum);
    hash.add(options.others);
  }
}

std::vector<TensorId> members_of(const OptimizerState& optimizer) {
  std::vector<TensorId> members;
  for (const auto& group : optimizer.groups) {
    for (const OptimizerMember& member : group) members.push_back(member.tensor);
  }
  std::ranges::sort(members);
  return members;
}

bool shares_member(const std::vector<TensorId>& one, const std::vector<TensorId>& other) {
  return std::ranges::any_of(
      one, [&other](TensorId member) { return std::ranges::binary_search(other, member); });
}

/// A newer one steps all of its members, or some and was built after its last step: a program that
/// builds its optimizer anew drops the old.
bool is_replaced(const OptimizerState& optimizer, const RunState& state) {
  const std::vector<TensorId> members = members_of(optimizer);
  return std::ranges::any_of(state.optimizers(), [&](const auto& entry) {
    const OptimizerState& other = entry.second;
    const bool is_newer = other.first_seen > optimizer.first_seen && other.steps > 0 &&
                          other.last_step_cycle > optimizer.last_step_cycle;
    if (!is_newer) return false;
    const std::vector<TensorId> later = members_of(other);
    const bool follows = other.creation_seen && other.first_seen > optimizer.last_step_event;
    return std::ranges::includes(later, members) || (follows && shares_member(members, later));
  });
}

bool share_members(const RunState& state) {
  std::vector<TensorId> all;
  for (const auto& [id, optimizer] : state.optimizers()) {
    for (const TensorId member : members_of(optimizer)) all.push_back(member);
  }
  std::ranges::sort(all);
  return std::ranges::adjacent_find(all) != all.end();
}
}  // namespace

// Steps in which hooks rest are not counted.
std::set<OptimizerId> RankDigest::in_use(const RunState& state) const {
  std::set<OptimizerId> ids;
  for (const auto& [id, optimizer] : state.optimizers()) {
    const bool has_stepped = optimizer.steps > 0 || stepped_.contains(id);
    if (has_stepped && !is_replaced(optimizer, state)) ids.insert(id);
  }
  return ids;
}

void RankDigest::on(const OptimizerStepEvent& event, const RunState& state) {
  turns_.on(event);
  // Its first step makes an optimizer one of those that are compared.
  for (const auto& [id, optimizer] : state.optimizers()) {
    if (optimizer.steps == 1) optimizers_changed_ = true;
  }
}

void RankDigest::on(const OptimizerRatesEvent& event, const RunState&) {
  rates_changed_ = true;
  optimizers_changed_ |= stepped_.insert(event.optimizer).second;
}

void RankDigest::add_optimizers(StepDigest& digest, const RunState& state) {
  if (optimizers_changed_ || digest.gradients != optimizers_.gradients) {
    optimizers_ = look_at_optimizers(state);
    optimizers_.gradients = digest.gradients;
  } else if (std::exchange(rates_changed_, false)) {
    add_options(optimizers_, state);
  }
  digest.optimizers = optimizers_.optimizers;
  digest.learning_rate = optimizers_.learning_rate;
  digest.weight_decay = optimizers_.weight_decay;
  digest.momentum = optimizers_.momentum;
  digest.groups = optimizers_.groups;
  digest.members = optimizers_.members;
  digest.state = optimizers_.state;
}

// Members that received no gradient here are not told apart from those that never do.
void RankDigest::add_rested_optimizers(StepDigest& digest, const RunState& state) {
  if (optimizers_changed_) {
    optimizers_ = look_at_optimizers(state);
    optimizers_.gradients = 0;  // looked at again where those are known
  } else if (std::exchange(rates_changed_, false)) {
    add_options(optimizers_, state);
  }
  if (!optimizers_apart_) return;
  digest.optimizers = optimizers_.optimizers;
  digest.learning_rate = optimizers_.learning_rate;
  digest.weight_decay = optimizers_.weight_decay;
  digest.momentum = optimizers_.momentum;
  digest.groups = optimizers_.groups;
}

void RankDigest::add_options(StepDigest& digest, const RunState& state) const {
  Hash hash;
  digest.optimizers = 0;
  digest.groups = 0;
  for (const OptimizerId id : compared_) {
    const auto known = state.optimizers().find(id);
    if (known == state.optimizers().end()) continue;
    const OptimizerState& optimizer = known->second;
    if (digest.groups == 0 && !optimizer.options.empty()) {
      const GroupOptions& first = optimizer.options.front();
      digest.learning_rate = first.learning_rate;
      digest.weight_decay = first.weight_decay;
      digest.momentum = first.momentum;
    }
    add_to(hash, optimizer);
    digest.optimizers = hash.value();
    digest.groups += static_cast<std::int32_t>(optimizer.groups.size());
  }
}

std::int64_t RankDigest::local_members(const OptimizerState& optimizer) const {
  const auto is_local = [this](const OptimizerMember& member) {
    return std::ranges::any_of(
        models_, [&](const auto& entry) { return entry.second.declares(member.tensor); });
  };
  std::int64_t local = 0;
  for (const auto& group : optimizer.groups) local += std::ranges::count_if(group, is_local);
  return local;
}

StepDigest RankDigest::look_at_optimizers(const RunState& state) {
  optimizers_changed_ = rates_changed_ = false;
  compared_.clear();
  StepDigest digest;
  Hash states;
  std::int64_t with_state = 0;
  bool states_known = true;
  const std::set<OptimizerId> used = in_use(state);
  for (const auto& [id, optimizer] : state.optimizers()) {
    const std::int64_t local = local_members(optimizer);
    std::int64_t members = -local;
    for (const auto& group : optimizer.groups) members += std::ssize(group);
    if (!used.contains(id) || members == 0 || lone_.is_of_it(optimizer)) continue;
    compared_.push_back(id);
    digest.members += static_cast<std::int32_t>(members);
    const auto began = first_states_.find(id);
    // What each of them began with is not told apart.
    states_known &= began != first_states_.end() && local == 0;
    if (!states_known) continue;
    states.add(began->second.fingerprint);
    with_state += began->second.members;
  }
  // Where each rank steps a part of the parameters, it holds what the others do not.
  const bool complete = std::ranges::all_of(
      models_, [&](const auto& entry) { return entry.second.all_are_owned(state, used); });
  if (!complete) digest.members = 0;
  if (states_known) digest.state = state_word(with_state, states.value());
  add_options(digest, state);
  optimizers_apart_ = !share_members(state) && lone_.steps() == 0;
  return digest;
}

}  // namespace ddpscope
