#include "plugin/skipped_steps.h"

#include <algorithm>
#include <utility>

namespace ddpscope {
namespace {
constexpr std::int32_t kAgreeToLearn = 3;
constexpr std::size_t kMostEarly = 16;
}  // namespace

void SkippedSteps::step_ended(const Step& step) {
  const bool was_known = agreed_ >= kAgreeToLearn && backwards_ > 0;
  if (step.backwards == backwards_) {
    ++agreed_;
    most_calls_ = std::max(most_calls_, step.calls);
    least_calls_ = std::min(least_calls_, step.calls);
    if (!was_known && agreed_ >= kAgreeToLearn) count_early();
    return;
  }
  // One without batches that averages with the others makes their step.
  if (was_known && step.backwards == 0 && step.averages && step.calls < least_calls_) {
    --count_;
    return;
  }
  if (was_known && step.backwards % backwards_ == 0) {
    count_ += skipped_before(step);
    return;
  }
  if (!was_known && backwards_ > 0 && early_.size() < kMostEarly) {
    early_.insert(early_.end(), static_cast<std::size_t>(agreed_), last_);
  }
  backwards_ = step.backwards;
  agreed_ = 1;
  most_calls_ = least_calls_ = step.calls;
  last_ = step;
}

std::int32_t SkippedSteps::skipped_before(const Step& step) const {
  std::int32_t attempts = step.backwards / backwards_;
  if (step.averages) attempts = std::min(attempts, step.calls / std::max(most_calls_, 1));
  return std::max(attempts - 1, 0);
}

// Before the number was known.
void SkippedSteps::count_early() {
  if (backwards_ == 0) return;
  for (const Step& step : std::exchange(early_, {})) {
    if (step.backwards % backwards_ == 0) count_ += skipped_before(step);
  }
}

}  // namespace ddpscope
