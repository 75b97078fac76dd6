#include "checks/repeated_steps.h"

#include <fmt/format.h>

#include <utility>

#include "checks/finding_text.h"
#include "checks/update_text.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kBehindEach = 8;
}  // namespace

void RepeatedSteps::see(Steps& own, bool repeated) const {
  if (repeated) {
    ++own.repeated;
    if (std::exchange(own.is_new, false)) ++own.in_a_row;
    return;
  }
  if (std::exchange(own.is_new, true)) own.in_a_row = own.repeated = 0;
}

std::optional<Finding> RepeatedSteps::on(const OptimizerStepEvent& event, const RunState& state) {
  using enum Applicability;
  const bool is_behind = last_ == event.optimizer && event.at.step <= last_step_ + 1;
  last_ = event.threw || event.with_closure ? 0 : event.optimizer;
  last_step_ = event.at.step;
  Steps& own = steps_[event.optimizer];
  if (last_ == 0 || state.several_threads_train()) {
    own = {.told = own.told};
    return std::nullopt;
  }
  if (!is_behind) own.is_new = false;  // what came between is not known
  see(own, event.repeated && is_behind);
  if (own.told || own.in_a_row < kBehindEach) return std::nullopt;
  own.told = true;
  const OptimizerState& optimizer = state.optimizers().at(event.optimizer);
  Finding finding = about_optimizer(optimizer, "applied_twice", state);
  finding.what = fmt::format(
      "step() was called again with the gradients that it had applied, behind each of the last {} "
      "steps (applied_twice)",
      kBehindEach);
  finding.why = fmt::format(
      "no backward came before {} of {} steps of {}, nor did anything else change a gradient: each "
      "of them moves the parameters {}",
      own.repeated, own.repeated + kBehindEach, optimizer_label(optimizer),
      own.repeated == kBehindEach ? "twice" : "several times");
  finding.fixes = {{"call step() once behind each backward()", kLikely},
                   {"for larger steps raise the learning rate", kNeedsDecision}};
  return finding;
}

void RepeatedSteps::clear() {
  steps_.clear();
  last_ = 0;
}

}  // namespace ddpscope
