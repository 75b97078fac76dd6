#include "plugin/skipped_steps.h"

#include <algorithm>

namespace ddpscope {
namespace {
constexpr std::int32_t kAgreeToLearn = 3;
}

void SkippedSteps::step_ended(const Step& step) {
  if (step.backwards == backwards_) {
    ++agreed_;
    most_calls_ = std::max(most_calls_, step.calls);
    return;
  }
  const bool is_known = agreed_ >= kAgreeToLearn && backwards_ > 0;
  if (!is_known || step.backwards % backwards_ != 0) {
    backwards_ = step.backwards;
    agreed_ = 1;
    most_calls_ = step.calls;
    return;
  }
  std::int32_t attempts = step.backwards / backwards_;
  if (step.averages) attempts = std::min(attempts, step.calls / std::max(most_calls_, 1));
  count_ += std::max(attempts - 1, 0);
}

}  // namespace ddpscope
