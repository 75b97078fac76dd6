#include "checks/lapsed_owners.h"

#include <algorithm>
#include <ranges>

namespace ddpscope {
namespace {
constexpr std::int64_t kWindowSteps = 32;
constexpr std::int64_t kUnusedCycles = 4;
constexpr std::int64_t kStepsOfOthers = 64;
constexpr std::int64_t kClearsUnused = 16;

/// It may belong to a phase that comes again: of one that rested before, twice as long is waited.
bool is_idle(const RunState& state, const OptimizerState& optimizer) {
  const std::int64_t rest = state.watched_step() - optimizer.last_step;
  return optimizer.steps > 0 && rest > std::max(kWindowSteps, 2 * optimizer.longest_rest);
}

bool is_stepping(const RunState& state, const OptimizerState& optimizer) {
  return optimizer.steps > 0 && !is_idle(state, optimizer);
}

/// The one that stepped it last, where all are idle, or one of those of which none ever stepped.
const OptimizerState* last_owner_of(const RunState& state, const TensorState& tensor) {
  const OptimizerState* last = nullptr;
  for (const OptimizerId id : tensor.owners | std::views::reverse) {
    const OptimizerState& owner = state.optimizers().at(id);
    if (is_stepping(state, owner)) return nullptr;
    if (last != nullptr && (owner.steps == 0) != (last->steps == 0)) return nullptr;
    if (last == nullptr || owner.last_step_event > last->last_step_event) last = &owner;
  }
  return last;
}

template <class Test>
bool has_member(const RunState& state, const OptimizerState& optimizer, const Test& is_wanted) {
  return std::ranges::any_of(optimizer.groups, [&](const auto& group) {
    return std::ranges::any_of(group, [&](const OptimizerMember& member) {
      const TensorState* tensor = state.tensor(member.tensor);
      return tensor != nullptr && is_wanted(*tensor);
    });
  });
}

const OptimizerState* newest_stepping(const RunState& state) {
  for (const auto& [id, optimizer] : state.optimizers() | std::views::reverse) {
    if (is_stepping(state, optimizer)) return &optimizer;
  }
  return nullptr;
}

/// For so long that no accumulation explains it; nor does the program update a member by itself,
/// or in a phase with another optimizer.
bool is_forgotten(const RunState& state, const OptimizerState& optimizer) {
  const std::int64_t steps = state.now().step - optimizer.first_seen_step;
  if (steps <= kStepsOfOthers && optimizer.clears < kClearsUnused) return false;
  if (!optimizer.creation_seen || !is_built_beside_models(state, optimizer)) return false;
  return !has_member(state, optimizer, [&](const TensorState& member) {
    return !member.written_by.empty() || member.is_copied ||
           std::ranges::any_of(member.owners, [&state](OptimizerId owner) {
             return !state.optimizers().at(owner).never_stepped();
           });
  });
}
}  // namespace

bool is_built_beside_models(const RunState& state, const OptimizerState& optimizer) {
  return std::ranges::any_of(state.models(), [&](const auto& model) {
    return std::ranges::any_of(model.second.tensors, [&](const RegisteredTensor& registered) {
      const TensorState* tensor = state.tensor(registered.tensor.id);
      return tensor != nullptr && tensor->first_seen < optimizer.first_seen;
    });
  });
}

bool is_held(const RunState& state, const TensorState& tensor) {
  return std::ranges::any_of(tensor.owners, [&state](OptimizerId owner) {
    return !is_idle(state, state.optimizers().at(owner));
  });
}

void LapsedOwners::begin(const RunState& state, bool at_exit) {
  at_exit_ = at_exit;
  if (!at_exit) last_cycle_ = state.now().cycle;
  successors_.clear();
  is_any_idle_ = !state.several_threads_train() &&
                 std::ranges::any_of(state.optimizers(), [&state](const auto& entry) {
                   return !is_stepping(state, entry.second);
                 });
}

Lapsed LapsedOwners::of(const RunState& state, const TensorState& tensor) {
  if (!is_any_idle_ || tensor.gradients == 0) return {};
  const OptimizerState* owner = last_owner_of(state, tensor);
  if (owner == nullptr || unused_cycles(tensor, *owner) < kUnusedCycles) return {};
  if (owner->steps == 0 && (owner->has_begun || !at_exit_)) return {};
  const OptimizerState* other = successor_of(state, *owner);
  if (owner->never_stepped()) {
    return other == nullptr ? Lapsed{} : Lapsed{Lapse::kNeverStepped, owner, other};
  }
  if (other != nullptr) return {Lapse::kFollowed, owner, other};
  other = at_exit_ ? newest_stepping(state) : nullptr;
  return other == nullptr ? Lapsed{} : Lapsed{Lapse::kAtRest, owner, other};
}

/// Built after its last step, for a part of its members: then its turn was over. Of one that never
/// stepped: any that steps, where this one was forgotten.
const OptimizerState* LapsedOwners::successor_of(const RunState& state,
                                                 const OptimizerState& owner) {
  const auto [known, is_new] = successors_.try_emplace(owner.id, nullptr);
  if (!is_new) return known->second;
  if (owner.steps == 0) {
    return known->second = is_forgotten(state, owner) ? newest_stepping(state) : nullptr;
  }
  for (const auto& [id, other] : state.optimizers() | std::views::reverse) {
    if (id <= owner.id) break;
    if (!other.creation_seen || other.first_seen < owner.last_step_event) continue;
    if (!is_stepping(state, other)) continue;
    const bool shares = has_member(
        state, other, [&owner](const TensorState& member) { return member.is_owned_by(owner.id); });
    if (shares) return known->second = &other;
  }
  return nullptr;
}

std::int64_t LapsedOwners::unused_cycles(const TensorState& tensor, const OptimizerState& owner) {
  Unused& unused = unused_[tensor.info.id];
  if (unused.since_event != owner.last_step_event) unused = {.since_event = owner.last_step_event};
  if (tensor.gradient_cycle < last_cycle_) return 0;
  if (!at_exit_) ++unused.cycles;
  return unused.cycles;
}

}  // namespace ddpscope
