#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>

#include "checks/check.h"
#include "checks/clip_finder.h"
#include "checks/clip_window.h"
#include "checks/run_state.h"
#include "model/fact_keys.h"
#include "model/statistics.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kWarmUp = 200;
constexpr std::int64_t kTinyWindow = 50;
constexpr std::int64_t kNever = 1000;
constexpr double kActive = 0.95;
constexpr double kSmall = 0.1;
constexpr double kTiny = 1e-3;

/// clip-always-active; docs/checks/clip-always-active.md
class ClipAlwaysActive final : public Check {
 public:
  void on_backward(const BackwardEvent&, const RunState&, Findings&) override {
    finder_.on_backward();
  }
  void on_gradient_values(const GradientValuesEvent& event, const RunState&, Findings&) override {
    finder_.on_gradient_values(event);
  }

  void on_gradients_scaled(const GradientsScaledEvent& event, const RunState& state,
                           Findings& findings) override {
    const std::optional<Clip> clip = finder_.find(event, state);
    if (!clip.has_value() || !std::isfinite(clip->norm)) return;
    if (clip->limit <= 0) findings.push_back(describe_no_limit(*clip, state));
    windows_[clip->first].clip(*clip);
  }

  void on_optimizer_step(const OptimizerStepEvent& event, const RunState& state,
                         Findings& findings) override {
    const auto optimizer = state.optimizers().find(event.optimizer);
    if (optimizer == state.optimizers().end()) return;
    for (auto& [first, window] : windows_) {
      if (!is_step_of(event, first, state)) continue;
      const std::int64_t number = state.steps_of(optimizer->second);
      window.add_step(number > kWarmUp, number);
      if (is_intended(first, state)) continue;
      if (window.idle_steps() == kNever) findings.push_back(describe_never(first, window, state));
      if (!is_always_active(window)) continue;
      findings.push_back(describe_always(first, window, state));
      window.clear();
    }
  }

  void on_dropped(const DroppedEvent&, const RunState&) override {
    windows_.clear();
    finder_.on_dropped();
  }

  std::string unfinished(const RunState& state) const override {
    std::int64_t most = 0;
    for (const auto& [first, window] : windows_) most = std::max(most, window.watched());
    const std::int64_t steps = state.most_steps(), needed = ClipWindow::kWatched;
    if (windows_.empty() || steps < kWarmUp + kTinyWindow || most >= needed) return "";
    return fmt::format("{} of {} steps with a clip in {} steps: the budget allowed no more", most,
                       needed, steps);
  }

 private:
  static bool is_always_active(const ClipWindow& window) {
    const bool is_full = window.covers(ClipWindow::kSteps);
    if (!is_full && !window.covers(kTinyWindow)) return false;
    if (window.limit() <= 0 || window.active_ratio() < kActive) return false;
    return window.factor_median() < (is_full ? kSmall : kTiny);
  }

  static bool is_intended(TensorId first, const RunState& state) {
    const TensorState* tensor = state.tensor(first);
    const ModelState* model = tensor != nullptr ? state.model_of(*tensor) : nullptr;
    return model != nullptr && state.declared(model->id, "", "intended");
  }

  static Finding about_limit(TensorId first, double limit, const std::string& cause,
                             const RunState& state) {
    Finding finding = about_gradients_of(first, state);
    finding.step = state.now().step;
    finding.facts = {{fact::kCause, cause}, {fact::kMaxNorm, limit}};
    return finding;
  }

  static Finding describe_no_limit(const Clip& clip, const RunState& state) {
    const bool is_zero = clip.limit == 0;
    Finding finding =
        about_limit(clip.first, clip.limit, is_zero ? "zero_limit" : "negative_limit", state);
    finding.severity = Severity::kError;
    finding.what = fmt::format("gradients are clipped to the {} {:.4g}",
                               is_zero ? "norm" : "negative norm", clip.limit);
    finding.why = is_zero ? "no step learns from the loss" : "steps go up the slope of the loss";
    finding.fixes = {{"pass a limit above 0", Applicability::kSafe}};
    return finding;
  }

  static Finding describe_never(TensorId first, const ClipWindow& window, const RunState& state) {
    Finding finding = about_limit(first, window.limit(), "never_reached", state);
    finding.severity = Severity::kNote;
    finding.what = fmt::format("clipping was active in none of the last {} steps", kNever);
    finding.why = fmt::format("limit {:.4g} was not reached in them", window.limit());
    finding.fixes = {{"leave the clipping as a guard, or out", Applicability::kNeedsDecision}};
    finding.facts.push_back({fact::kWindowSteps, kNever});
    return finding;
  }

  static Finding describe_always(TensorId first, const ClipWindow& window, const RunState& state) {
    using enum Applicability;
    const std::int64_t steps = window.steps(), watched = window.watched();
    const double ratio = window.active_ratio(), factor = window.factor_median();
    const double often = quantile(window.norms(), 0.9);
    Finding finding = about_limit(first, window.limit(), "always_active", state);
    finding.severity = factor < kTiny ? Severity::kError : Severity::kWarning;
    const std::string window_text =
        watched == steps ? fmt::format("the last {} steps", steps)
                         : fmt::format("{} watched steps of the last {}", watched, steps);
    finding.what = fmt::format("clipping was active in {:.0f} of {}, median factor {:.2g}",
                               ratio * static_cast<double>(watched), window_text, factor);
    finding.why =
        fmt::format("limit {:.4g}, norms {:.2g} to {:.2g}, 90th percentile {:.2g}", window.limit(),
                    std::ranges::min(window.norms()), std::ranges::max(window.norms()), often);
    finding.fixes = {{fmt::format("a limit near {:.2g}", often), kNeedsDecision},
                     {"gradients that carry a loss scale: divide them before the clip", kLikely},
                     {"where it is meant: declare the model intended", kNeedsDecision}};
    finding.facts.insert(finding.facts.end(), {{fact::kActiveRatio, ratio},
                                               {fact::kFactorMedian, factor},
                                               {fact::kNormP50, quantile(window.norms(), 0.5)},
                                               {fact::kNormP90, often},
                                               {fact::kWindowSteps, steps}});
    return finding;
  }

  std::map<TensorId, ClipWindow> windows_;
  ClipFinder finder_;
};
}  // namespace

std::unique_ptr<Check> make_clip_always_active() { return std::make_unique<ClipAlwaysActive>(); }

}  // namespace ddpscope
