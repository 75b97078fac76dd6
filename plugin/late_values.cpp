#include "plugin/late_values.h"

#include <utility>

namespace ddpscope {
namespace {
// After these nothing can come any more, or it may have been lost.
bool ends_waiting(const Event& event) noexcept {
  return std::holds_alternative<ExitEvent>(event) || std::holds_alternative<DroppedEvent>(event);
}
}  // namespace

bool LateValues::concerns(const Event& event) const noexcept {
  return !held_.empty() || std::holds_alternative<ValuesAwaitedEvent>(event) ||
         std::holds_alternative<std::unique_ptr<DeviceValuesEvent>>(event);
}

void LateValues::put(Event&& event) {
  if (auto* values = std::get_if<std::unique_ptr<DeviceValuesEvent>>(&event)) {
    const std::uint64_t batch = (*values)->batch;
    if (awaited_.contains(batch)) arrived_[batch] = std::move(*values);
    return;
  }
  if (const auto* awaited = std::get_if<ValuesAwaitedEvent>(&event)) {
    awaited_.insert(awaited->batch);
  } else if (ends_waiting(event) && !awaited_.empty()) {
    given_up_ = *awaited_.rbegin();
  }
  held_.push_back(std::move(event));
  if (held_.size() > kMaxHeld && !awaited_.empty()) given_up_ = *awaited_.begin();
}

bool LateValues::take(Event& event) {
  for (;;) {
    if (!told_.empty()) {
      event = std::move(told_.front());
      told_.pop_front();
      return true;
    }
    if (held_.empty()) return false;
    const auto* awaited = std::get_if<ValuesAwaitedEvent>(&held_.front());
    if (awaited != nullptr && !pass_awaited(awaited->batch)) return false;
    if (awaited == nullptr) event = std::move(held_.front());
    const bool is_event = awaited == nullptr;
    held_.pop_front();
    if (is_event) return true;
  }
}

bool LateValues::pass_awaited(std::uint64_t batch) {
  const auto arrived = arrived_.find(batch);
  if (arrived == arrived_.end() && batch > given_up_) return false;
  if (arrived != arrived_.end()) {
    tell(std::move(*arrived->second));
    arrived_.erase(arrived);
  }
  awaited_.erase(batch);
  return true;
}

void LateValues::tell(DeviceValuesEvent&& values) {
  for (LossEvent& loss : values.losses) told_.emplace_back(loss);
  for (GradientValuesEvent& gradient : values.gradients) {
    told_.emplace_back(std::make_unique<GradientValuesEvent>(std::move(gradient)));
  }
  for (NonfiniteGradientEvent& gradient : values.nonfinite) {
    told_.emplace_back(std::make_unique<NonfiniteGradientEvent>(gradient));
  }
}

}  // namespace ddpscope
