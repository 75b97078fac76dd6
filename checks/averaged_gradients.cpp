#include "checks/averaged_gradients.h"

#include <algorithm>

namespace ddpscope {
namespace {
constexpr std::size_t kMaxUnknownCycles = 16;
}

void AveragedGradients::on(const CollectiveEvent& event) {
  const bool sums = event.reduce == ReduceKind::kSum || event.reduce == ReduceKind::kAverage;
  if (!sums || event.group_size < 2) return;
  for (const TensorId parameter : event.gradients_of) {
    if (parameter == 0) continue;
    if (first_step_ == 0) first_step_ = event.at.step;
    last_cycles_[parameter] = event.at.cycle;
  }
  const bool all_known = std::ssize(event.gradients_of) == event.list &&
                         std::ranges::count(event.gradients_of, TensorId{0}) == 0;
  if (all_known) return;
  std::int64_t& most = unknown_elements_[event.at.cycle];
  most = std::max(most, event.elements);
  if (unknown_elements_.size() > kMaxUnknownCycles)
    unknown_elements_.erase(unknown_elements_.begin());
}

bool AveragedGradients::covered_after(std::int64_t cycle, TensorId parameter) const {
  const auto last = last_cycles_.find(parameter);
  return last != last_cycles_.end() && last->second > cycle;
}

bool AveragedGradients::missed_after(std::int64_t cycle, const TensorState& parameter) const {
  if (!any() || covered_after(cycle, parameter.info.id)) return false;
  return std::ranges::none_of(unknown_elements_, [&](const auto& unknown) {
    return unknown.first > cycle && unknown.second >= parameter.info.elements;
  });
}

}  // namespace ddpscope
