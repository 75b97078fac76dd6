#include "checks/foreign_gradients.h"

#include <algorithm>
#include <utility>

namespace ddpscope {
namespace {
constexpr std::int64_t kForeignSteps = 3;
constexpr std::int64_t kCleanSteps = 2;

template <class Visit>
void for_members(const OptimizerState& optimizer, Visit visit) {
  for (const auto& group : optimizer.groups) {
    for (const OptimizerMember& member : group) visit(member.tensor);
  }
}
}  // namespace

bool ForeignGradients::Reach::contains(std::int64_t backward) const {
  const bool is_gapless = count == last - first + 1;
  return count > 0 && (backward == first || backward == last ||
                       (is_gapless && first < backward && backward < last));
}

/// What comes after steps that were not seen starts anew.
void ForeignGradients::see(std::int64_t step) {
  if (step > last_step_ + 1) clear();
  last_step_ = step;
}

void ForeignGradients::add(const GradientEvent& event, const std::vector<OptimizerId>& owners) {
  see(event.at.step);
  ++place_;
  const auto [entry, is_new] = parameters_.try_emplace(event.tensor);
  Parameter& parameter = entry->second;
  if (event.before != GradientBefore::kKept) {
    const bool is_undefined = event.before == GradientBefore::kUndefined;
    const bool is_reset = event.before == GradientBefore::kReset && !is_new;
    parameter = {.is_known = is_undefined || is_reset};
  } else if (parameter.is_known && parameter.other == 0 && parameter.last < backward_) {
    parameter.other = stepped_since(parameter, owners);
    const auto other = optimizers_.find(parameter.other);
    parameter.is_behind = other != optimizers_.end() &&
                          other->second.before_step.last == parameter.last &&
                          parameter.place < other->second.before_step.place;
  }
  if (parameter.first == 0) parameter.first = backward_;
  parameter.last = backward_;
  parameter.place = place_;
  for (const OptimizerId owner : owners) {
    Reach& reach = optimizers_[owner].reach;
    if (reach.count > 0 && reach.last == backward_) continue;
    if (reach.count == 0) reach.first = backward_;
    ++reach.count;
    reach.last = backward_;
    reach.place = place_;
  }
}

/// Which optimizer used the last backward of this parameter, before the present one began.
OptimizerId ForeignGradients::stepped_since(const Parameter& parameter,
                                            const std::vector<OptimizerId>& owners) const {
  if (parameter.is_applied) return parameter.applied_by;
  for (const auto& [id, optimizer] : optimizers_) {
    const bool is_owner = std::ranges::find(owners, id) != owners.end();
    const bool is_between = parameter.last < optimizer.stepped_at &&
                            optimizer.stepped_at <= backward_ &&
                            optimizer.before_step.contains(parameter.last);
    if (!is_owner && is_between) return id;
  }
  return 0;
}

void ForeignGradients::zero_grad(const OptimizerState& optimizer) {
  for_members(optimizer, [this](TensorId id) {
    const auto known = parameters_.find(id);
    if (known != parameters_.end()) known->second = {.is_known = true};
  });
}

/// The members that one other optimizer had left gradients in when this one stepped.
std::optional<ForeignGradients::Applied> ForeignGradients::mixed(
    const OptimizerState& optimizer) const {
  Applied applied{.optimizer = optimizer.id, .all = true};
  bool are_behind = true;
  bool are_applied = true;
  for_members(optimizer, [&](TensorId id) {
    const auto known = parameters_.find(id);
    if (known == parameters_.end() || known->second.first == 0) return;
    const Parameter& parameter = known->second;
    if (applied.other == 0 && parameter.other != optimizer.id) applied.other = parameter.other;
    if (parameter.other == 0 || parameter.other != applied.other) {
      applied.all = false;
      return;
    }
    applied.parameters.push_back(id);
    applied.last_backward = std::max(applied.last_backward, parameter.last);
    are_behind = are_behind && parameter.is_behind;
    are_applied = are_applied && parameter.is_applied;
  });
  const auto other = optimizers_.find(applied.other);
  if (other == optimizers_.end()) return {};
  const Reach& reach = other->second.reach;
  const bool is_reached = reach.count > 0 && reach.first <= applied.last_backward;
  const bool uses_both = other->second.stepped_at > applied.last_backward;
  if (are_applied) {
    applied.sign = Sign::kAppliedTwice;
  } else if (is_reached) {
    applied.sign = Sign::kThrownAway;
  } else if (!are_behind || uses_both) {
    return {};
  }
  return applied;
}

/// Whether what the backward of a step left for this optimizer was cleared before it stepped.
bool ForeignGradients::is_thrown_away(const OptimizerState& optimizer,
                                      std::int64_t last_backward) const {
  bool is_thrown_away = false;
  bool is_kept = false;
  for_members(optimizer, [&](TensorId id) {
    const auto known = parameters_.find(id);
    if (known == parameters_.end() || known->second.first == 0) return;
    const bool is_new = known->second.is_known && known->second.first > last_backward;
    (is_new ? is_thrown_away : is_kept) = true;
  });
  return is_thrown_away && !is_kept;
}

void ForeignGradients::count(Applied applied, std::vector<Applied>& regular) {
  Optimizer& optimizer = optimizers_[applied.optimizer];
  const bool is_same = optimizer.other == applied.other && optimizer.sign == applied.sign;
  optimizer.times = is_same ? optimizer.times + 1 : 1;
  optimizer.other = applied.other;
  optimizer.sign = applied.sign;
  optimizer.clean = 0;
  if (optimizer.times == kForeignSteps) regular.push_back(std::move(applied));
}

/// Those of others that waited for this step.
void ForeignGradients::decide(const OptimizerState& optimizer, std::vector<Applied>& regular) {
  for (auto& [id, waiting] : optimizers_) {
    if (!waiting.pending.has_value() || waiting.pending->other != optimizer.id) continue;
    Applied applied = *std::exchange(waiting.pending, std::nullopt);
    if (is_thrown_away(optimizer, applied.last_backward)) {
      count(std::move(applied), regular);
    } else {
      waiting.times = 0;
    }
  }
}

void ForeignGradients::apply(const OptimizerState& optimizer) {
  for_members(optimizer, [this, &optimizer](TensorId id) {
    const auto known = parameters_.find(id);
    if (known == parameters_.end() || known->second.first == 0) return;
    Parameter& parameter = known->second;
    const bool is_first = !parameter.is_applied || parameter.applied_by == optimizer.id;
    parameter.applied_by = is_first ? optimizer.id : 0;
    parameter.is_applied = true;
    parameter.other = 0;
  });
}

std::vector<ForeignGradients::Applied> ForeignGradients::step(const OptimizerStepEvent& event,
                                                              const OptimizerState& optimizer) {
  std::vector<Applied> regular;
  see(event.at.step);
  const std::uint64_t thread = std::exchange(thread_, event.at.thread);
  if (thread != 0 && thread != thread_) clear();
  if (parameters_.empty()) return regular;
  decide(optimizer, regular);
  Optimizer& stepped = optimizers_[optimizer.id];
  if (std::optional<Applied> applied = mixed(optimizer); !applied.has_value()) {
    if (++stepped.clean >= kCleanSteps) stepped.times = 0;
  } else if (applied->sign == Sign::kThrownAway) {
    stepped.pending = std::move(applied);
  } else {
    count(std::move(*applied), regular);
  }
  apply(optimizer);
  stepped.before_step = std::exchange(stepped.reach, {});
  stepped.stepped_at = backward_;
  return regular;
}

void ForeignGradients::clear() {
  parameters_.clear();
  for (auto& [id, optimizer] : optimizers_) {
    optimizer.reach = optimizer.before_step = {};
    optimizer.pending.reset();
  }
}

}  // namespace ddpscope
