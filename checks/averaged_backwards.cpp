#include "checks/averaged_backwards.h"

#include <algorithm>
#include <cstddef>

#include "checks/averaged_gradients.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMost = 256;

std::int64_t elements_of(const OptimizerState& optimizer, const RunState& state) {
  std::int64_t elements = 0;
  for (const auto& group : optimizer.groups) {
    for (const OptimizerMember& member : group) {
      const TensorState* const tensor = state.tensor(member.tensor);
      if (tensor != nullptr) elements += tensor->info.elements;
    }
  }
  return elements;
}
}  // namespace

void AveragedBackwards::on(const CollectiveEvent& event, std::int64_t backward) {
  if (!event.averages) return;
  if (calls_.size() >= kMost) calls_.erase(calls_.begin());
  Calls& calls = calls_[backward];
  if (names_all_gradients(event)) {
    calls.gradients_of.insert(event.gradients_of.begin(), event.gradients_of.end());
  } else {
    calls.unnamed_elements += event.elements;
  }
}

bool AveragedBackwards::are_of(const Calls& calls, const OptimizerState& optimizer,
                               const RunState& state) {
  const auto is_named = [&calls](const OptimizerMember& member) {
    return calls.gradients_of.contains(member.tensor);
  };
  const auto has_named = [&is_named](const auto& group) {
    return std::ranges::any_of(group, is_named);
  };
  if (std::ranges::any_of(optimizer.groups, has_named)) return true;
  const std::int64_t elements = calls.unnamed_elements;
  if (elements == 0 || elements_of(optimizer, state) == elements) return elements > 0;
  return std::ranges::none_of(state.optimizers(), [&](const auto& other) {
    return elements_of(other.second, state) == elements;
  });
}

AveragedBackwards::Pattern AveragedBackwards::pattern_of(const std::set<std::int64_t>& backwards,
                                                         const OptimizerState& optimizer,
                                                         const RunState& state) const {
  Pattern pattern;
  for (const std::int64_t backward : backwards) {
    const auto calls = calls_.find(backward);
    pattern.push_back(calls != calls_.end() && are_of(calls->second, optimizer, state));
  }
  return pattern;
}

}  // namespace ddpscope
