#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "checks/check.h"
#include "checks/clip_finder.h"
#include "checks/finding_text.h"
#include "checks/loss_scale.h"
#include "checks/run_state.h"
#include "checks/step_attempts.h"
#include "checks/step_owners.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kInARow = 8;
constexpr double kShare = 0.2;

/// optim-skipped-steps; docs/checks/optim-skipped-steps.md
class OptimSkippedSteps final : public Check {
 public:
  void on_op(const OpEvent& event, const RunState&, Findings&) override { scale_.on_op(event); }

  void on_backward(const BackwardEvent& event, const RunState&, Findings&) override {
    ++backwards_;
    scale_.on_backward(event);
  }

  // Gradients that were cleared without a step: whether it was left out because of them.
  void on_gradient(const GradientEvent& event, const RunState& state, Findings& findings) override {
    const TensorState* tensor = state.tensor(event.tensor);
    if (tensor == nullptr || !event.defined) return;
    for (const OptimizerId owner : steppers_of(*tensor, state)) {
      StepAttempts& watched = watched_[owner];
      const bool is_new = watched.attempt.backward != backwards_;
      if (is_new && event.before != GradientBefore::kKept) {
        const bool is_bad = watched.attempt.first_parameter != 0;
        if (is_bad && !closures_.has(owner, state)) skip(owner, watched, state, findings);
        watched.attempt = {};
      }
      if (watched.attempt.first_parameter == 0) watched.attempt.first_parameter = watched.early;
      watched.early = 0;
      if (has_scale()) watched.attempt.scale = scale_.now();
      watched.attempt.backward = backwards_;
    }
  }

  void on_nonfinite_gradient(const NonfiniteGradientEvent& event, const RunState& state,
                             Findings&) override {
    const TensorState* tensor = state.tensor(event.tensor);
    if (tensor == nullptr) return;
    for (const OptimizerId owner : steppers_of(*tensor, state)) {
      StepAttempts& watched = watched_[owner];
      const bool is_early = watched.attempt.backward != backwards_;
      TensorId& first = is_early ? watched.early : watched.attempt.first_parameter;
      if (first == 0) first = event.tensor;
    }
  }

  void on_gradients_scaled(const GradientsScaledEvent& event, const RunState& state,
                           Findings&) override {
    const TensorState* tensor = state.tensor(event.first);
    if (tensor == nullptr || event.quotient.has_value()) return;
    const double divisor = 1 / event.factor.value_or(1);
    const bool makes_mean = divisor == static_cast<double>(state.world_size());
    if (has_scale() || makes_mean || !scale_.may_be(divisor)) return;
    for (const OptimizerId owner : steppers_of(*tensor, state)) {
      std::optional<double>& scale = watched_[owner].attempt.scale;
      scale = std::max(scale.value_or(0), divisor);
    }
  }

  void on_optimizer_step(const OptimizerStepEvent& event, const RunState&, Findings&) override {
    closures_.on_optimizer_step(event);
    if (!event.threw) watched_[event.optimizer].step();
  }

  void on_dropped(const DroppedEvent&, const RunState&) override {
    watched_.clear();
    scale_.clear();
  }

 private:
  bool has_scale() const { return scale_.now().value_or(1) != 1; }

  static void skip(OptimizerId optimizer, StepAttempts& watched, const RunState& state,
                   Findings& findings) {
    watched.skip();
    if (watched.in_a_row >= kInARow)
      return findings.push_back(describe(optimizer, watched, watched.in_a_row, state));
    if (!watched.is_full() || watched.skipped_ratio() <= kShare) return;
    findings.push_back(describe(optimizer, watched, watched.skipped_count(), state));
    watched.skipped.clear();
  }

  static std::string first_parameter(const StepAttempts::Attempt& attempt, const RunState& state) {
    const TensorState* tensor = state.tensor(attempt.first_parameter);
    return tensor == nullptr ? "" : tensor_path(*tensor);
  }

  static Finding describe(OptimizerId id, const StepAttempts& watched, std::int64_t skips,
                          const RunState& state) {
    using enum Applicability;
    const auto count = std::min(skips, std::int64_t{std::ssize(watched.skips)});
    const std::vector<StepAttempts::Attempt> last(watched.skips.end() - count, watched.skips.end());
    const bool in_a_row = watched.in_a_row >= kInARow;
    Finding finding = about_gradients_of(last.back().first_parameter, state);
    finding.subject = optimizer_label(state.optimizers().at(id));
    finding.what = in_a_row ? fmt::format("{} consecutive steps were skipped", skips)
                            : fmt::format("{} of the last {} steps were skipped", skips,
                                          StepAttempts::kWindow);
    const auto is_told = [](const auto& attempt) { return attempt.scale.has_value(); };
    const bool has_scale = is_told(last.front()) && is_told(last.back());
    const auto seen = std::ranges::find_if(last, is_told);
    if (has_scale) {
      finding.what += fmt::format(", loss scale {:.6g} at the first and {:.6g} at the last",
                                  *last.front().scale, *last.back().scale);
    } else if (seen != last.end()) {
      finding.what += fmt::format(", loss scale {:.6g} in one of them", *seen->scale);
    }
    std::vector<std::string> names;
    for (const StepAttempts::Attempt& attempt : last)
      names.push_back(first_parameter(attempt, state));
    const WordCount often = counted_words(names).front();
    finding.why = fmt::format("the first non-finite gradient was that of {} in {} of these steps",
                              often.word, often.count);
    finding.fixes = {{"keep the module of that parameter in float32", kLikely},
                     {"bfloat16, which needs no loss scale", kNeedsDecision},
                     {"a gradient that is not finite at any scale: find what makes it", kLikely}};
    finding.facts = {{fact::kConsecutiveCount, watched.in_a_row},
                     {fact::kSkippedRatio, watched.skipped_ratio()},
                     {fact::kFirstParameter, often.word}};
    if (has_scale) finding.facts.push_back({fact::kScaleFirst, *last.front().scale});
    if (has_scale) finding.facts.push_back({fact::kScaleLast, *last.back().scale});
    return finding;
  }

  std::int64_t backwards_ = 0;
  LossScale scale_;
  ClosureSteps closures_;
  std::map<OptimizerId, StepAttempts> watched_;
};
}  // namespace

std::unique_ptr<Check> make_optim_skipped_steps() { return std::make_unique<OptimSkippedSteps>(); }

}  // namespace ddpscope
