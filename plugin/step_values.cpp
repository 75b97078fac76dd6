#include "plugin/step_values.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ddpscope {

void StepValues::enter(std::int64_t cycle) {
  if (cycle == cycle_) return;
  *this = {};
  cycle_ = cycle;
}

void StepValues::saw(const Event& event) {
  if (const auto* loss = std::get_if<LossEvent>(&event)) {
    enter(loss->at.cycle);
    loss_ = loss->value;
  } else if (const auto* gradient = std::get_if<GradientEvent>(&event)) {
    if (!gradient->defined) return;
    enter(gradient->at.cycle);
    received_.push_back(gradient->tensor);
  } else if (const auto* values = std::get_if<std::unique_ptr<GradientValuesEvent>>(&event)) {
    enter((*values)->at.cycle);
    measured_.push_back((*values)->tensor);
    is_finite_ &= (*values)->values.is_finite();
    sum_of_squares_ += (*values)->sum_of_squares;
  }
}

StepValues::Told StepValues::take(std::int64_t cycle) {
  enter(cycle);
  Told told{.loss = loss_};
  std::ranges::sort(received_);
  std::ranges::sort(measured_);
  const bool has_twice = std::ranges::adjacent_find(received_) != received_.end();
  if (is_finite_ && !has_twice && !received_.empty() && received_ == measured_) {
    told.gradient_norm = std::sqrt(sum_of_squares_);
  }
  *this = {};
  return told;
}

}  // namespace ddpscope
