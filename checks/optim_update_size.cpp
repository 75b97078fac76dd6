#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/run_state.h"
#include "checks/step_habits.h"
#include "checks/subtree.h"
#include "checks/update_text.h"
#include "checks/update_window.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
constexpr double kVanishing = 1e-7;
constexpr double kGradientsVanish = 1e-4;
constexpr std::int64_t kSomeWeights = 16;
constexpr double kNoise = 1e-5;  // of the largest gradient: what rounding leaves of a zero

/// optim-update-size; docs/checks/optim-update-size.md
class OptimUpdateSize final : public Check {
 public:
  void on_parameter_updates(const ParameterUpdatesEvent& event, const RunState&,
                            Findings&) override {
    for (const ParameterUpdate& update : event.members) windows_[update.tensor].add(update);
  }

  // Each parameter comes once in a round: they are judged together.
  void on_optimizer_step(const OptimizerStepEvent& event, const RunState& state,
                         Findings& findings) override {
    const auto optimizer = state.optimizers().find(event.optimizer);
    if (optimizer == state.optimizers().end()) return;
    habits_.on(event, state, findings);
    if (event.threw) return;
    const std::int64_t step = state.steps_of(optimizer->second);
    if (!rounds_[event.optimizer].ends(optimizer->second.steps, step)) return;
    std::map<std::string, std::vector<const TensorState*>> affected;
    for (const auto& group : optimizer->second.groups) {
      for (const OptimizerMember& member : group) {
        const TensorState* tensor = state.tensor(member.tensor);
        if (tensor == nullptr || !tensor->info.requires_grad) continue;
        const std::string cause = cause_of(*tensor, state);
        if (cause.empty()) continue;
        const bool has_rate = !windows_.at(member.tensor).never_had_rate();
        if (has_rate || !habits_.told(event.optimizer)) affected[cause].push_back(tensor);
      }
    }
    for (const auto& [cause, tensors] : affected) {
      habits_.said(cause);
      for (const TensorGroup& group : collapse(state, tensors)) {
        findings.push_back(describe(group, cause, state));
      }
      for (const TensorState* tensor : tensors) windows_.erase(tensor->info.id);
    }
  }

  void on_backward(const BackwardEvent& event, const RunState&, Findings&) override {
    habits_.on(event);
  }
  void on_nonfinite_gradient(const NonfiniteGradientEvent&, const RunState&, Findings&) override {
    habits_.step_is_spoilt();
  }
  void on_spoilt_step(const SpoiltStepEvent&, const RunState&, Findings&) override {
    habits_.step_is_spoilt();
  }
  void on_collective(const CollectiveEvent& event, const RunState& state, Findings&) override {
    habits_.on(event, state);
  }
  void on_zero_grad(const ZeroGradEvent& event, const RunState& state,
                    Findings& findings) override {
    habits_.on(event, state, findings);
  }

  void on_exit(const ExitEvent&, const RunState& state, Findings& findings) override {
    habits_.at_exit(state, findings);
  }

  void on_dropped(const DroppedEvent&, const RunState&) override {
    habits_.drop();
    windows_.clear();
  }

  std::string unfinished(const RunState& state) const override {
    return why_unfinished(windows_, state.most_steps());
  }

 private:
  std::string cause_of(const TensorState& tensor, const RunState& state) const {
    const auto found = windows_.find(tensor.info.id);
    if (found == windows_.end()) return "";
    const UpdateWindow& window = found->second;
    if (window.has_no_rate()) return "no_effect";
    if (!window.is_full() || window.has_no_size() || window.is_warming_up()) return "";
    if (!std::isfinite(window.gradient_median())) return "";  // of weights that are not, either
    // A bias may lie near zero, and so may a few weights: each step is large beside them.
    const bool is_matrix = tensor.info.shape.size() >= 2 && tensor.info.elements >= kSomeWeights;
    if (is_matrix && window.is_exploding()) return "exploding";
    if (!window.is_conclusive()) return "";
    if (window.ratio_median() < kVanishing &&
        gradient_ratio(windows_, state.model_of(tensor)) < kGradientsVanish) {
      return "vanishing";
    }
    if (!window.is_unchanged()) return "";
    const bool is_short = tensor.info.dtype == "float16" || tensor.info.dtype == "bfloat16";
    if (is_short || window.last().lr == 0 || window.has_lost_rate()) return "no_effect";
    const bool is_noise = window.gradient_median() < kNoise * largest_gradient(windows_);
    return window.has_moved() || is_noise ? "" : "no_effect";
  }

  Finding describe(const TensorGroup& group, const std::string& cause,
                   const RunState& state) const {
    const TensorState& first = *group.tensors.front();
    const UpdateWindow& window = windows_.at(first.info.id);
    const double ratio = window.ratio_median();
    const double gradient = window.gradient_median();
    Finding finding = about(group);
    // To freeze these: others are trained.
    const bool may_be_meant = window.never_had_rate() && some_rate(windows_);
    finding.severity = may_be_meant ? Severity::kNote : Severity::kWarning;
    finding.phase = Phase::kOptimizer;
    const std::string samples = fmt::format("{} sampled steps", window.samples());
    if (cause == "no_effect") {
      finding.what =
          fmt::format("step() changed 0 of {} in {} although gradients are {:.2g} (no_effect)",
                      counted(elements_of(group.tensors), "element"), samples, gradient);
    } else {
      finding.what = fmt::format("a step changes {} (median of {}; {})",
                                 change_text(std::ssize(group.tensors), ratio), samples, cause);
    }
    explain_update(cause, windows_, first, state, finding);
    add_update_facts(cause, window, first, finding);
    return finding;
  }

  UpdateWindows windows_;
  std::map<OptimizerId, UpdateRounds> rounds_;
  StepHabits habits_;
};
}  // namespace

std::unique_ptr<Check> make_optim_update_size() { return std::make_unique<OptimUpdateSize>(); }

}  // namespace ddpscope
