#include "checks/nonfinite_trail.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

namespace ddpscope {
namespace {
constexpr std::size_t kMaxEvents = 4096;

template <class T>
void keep(std::vector<T>& events, const T& event) {
  if (events.size() < kMaxEvents) events.push_back(event);
}
}  // namespace

void NonfiniteTrail::begin_backward(bool accumulates) {
  accumulates_ = accumulates;
  if (!std::exchange(has_ended_, false)) return;
  loss_.reset();
  node_.reset();
  rested_ = false;
  spoilt_after_.reset();
  last_finite_ = 0;
  anomaly_ = false;
  gradients_.clear();
  if (std::exchange(spoils_, false)) spoilt_ = true;
  spoilt_leaves_.insert(next_spoilt_.begin(), next_spoilt_.end());
  next_spoilt_.clear();
}

void NonfiniteTrail::add(const LossEvent& event) {
  begin_backward();
  if (!loss_.has_value() || std::isfinite(loss_->value)) loss_ = event;
  if (!std::isfinite(event.value)) return;
  if (!first_finite_loss_.has_value()) first_finite_loss_ = event;
  last_finite_loss_ = event;
}

std::optional<NonfiniteTrail::Growth> NonfiniteTrail::growth() const {
  constexpr double kGrown = 1e4;
  if (!first_finite_loss_.has_value()) return std::nullopt;
  const double before = std::max(std::abs(first_finite_loss_->value), 1.0);
  if (std::abs(last_finite_loss_.value) < kGrown * before) return std::nullopt;
  return Growth{*first_finite_loss_, last_finite_loss_};
}

void NonfiniteTrail::add(const NonfiniteGradientEvent& event) { keep(gradients_, event); }

void NonfiniteTrail::add(const NonfiniteNodeEvent& event) {
  if (!node_.has_value()) node_ = event;
}

void NonfiniteTrail::add(const SpoiltStepEvent& event) {
  rested_ = true;
  averaged_ = averages_in_ == event.at.step;
  last_finite_ = event.last_finite;
  for (const auto& gradient : event.gradients) add(gradient);
}

void NonfiniteTrail::add(const GradientsSpoiltEvent& event) {
  spoilt_after_ = event;
  averaged_ = !event.before_average && averages_in_ == event.at.step;
}

void NonfiniteTrail::add(const ErrorEvent& event) {
  constexpr std::string_view kBefore = "Function '";
  constexpr std::string_view kAfter = "' returned nan values in its ";
  const std::size_t begin = event.message.find(kBefore);
  const std::size_t end = event.message.find(kAfter);
  if (begin == std::string::npos || end == std::string::npos) return;
  anomaly_ = true;
  if (node_.has_value()) return;
  const std::size_t name = begin + kBefore.size();
  node_ = NonfiniteNodeEvent{.at = event.at,
                             .node = event.message.substr(name, end - name),
                             .place = {.module = event.module}};
}

void NonfiniteTrail::add(const RiskyInputEvent& event) {
  if (!risky_.empty() && risky_.front().at.step != event.at.step) risky_.clear();
  keep(risky_, event);
}

void NonfiniteTrail::add(const CollectiveEvent& event) {
  if (event.averages && event.group_size > 1) averages_in_ = event.at.step;
}

void NonfiniteTrail::end_backward(const Stamp& at) {
  if (accumulates_ && origin() == Origin::kNone && !spoils_) spoilt_ = false;
  lost_ = false;
  has_ended_ = true;
  ended_ = at;
}

void NonfiniteTrail::lose_events() {
  has_ended_ = true;
  begin_backward();
  risky_.clear();
  lost_ = true;
}

void NonfiniteTrail::spoil(const std::vector<NonfiniteGradientEvent>& gradients) {
  spoils_ = true;
  for (const auto& gradient : gradients) next_spoilt_.push_back(gradient.tensor);
}

NonfiniteTrail::Origin NonfiniteTrail::origin() const {
  using enum Origin;
  const bool loss_is_bad = loss_.has_value() && !std::isfinite(loss_->value);
  // Where no leaf has it, a later node has absorbed what an earlier one made.
  if (!loss_is_bad && gradients_.empty() && !anomaly_) return kNone;
  if (is_old(0)) return kEarlier;
  if (loss_is_bad || (node_.has_value() && node_->saved_nan)) return kForward;
  const bool is_of_rank = rested_ && !averaged_;
  return node_.has_value() || loss_.has_value() || is_of_rank ? kBackward : kUnknown;
}

bool NonfiniteTrail::is_old(TensorId source) const {
  return spoilt_ || lost_ || spoilt_leaves_.contains(source);
}

const RiskyInputEvent* NonfiniteTrail::risky_input_of(TensorId output) const {
  const auto risky = std::ranges::find(risky_, output, &RiskyInputEvent::output);
  return output == 0 || risky == risky_.end() ? nullptr : &*risky;
}

}  // namespace ddpscope
