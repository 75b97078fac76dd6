#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/gradient_intervals.h"
#include "checks/run_state.h"
#include "checks/subtree.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
constexpr int kGapsToLearn = 3;

/// optim-stale-gradient; docs/checks/optim-stale-gradient.md
class OptimStaleGradient final : public Check {
 public:
  void on_gradient(const GradientEvent& event, const RunState& state, Findings&) override {
    const TensorState* tensor = state.tensor(event.tensor);
    if (tensor == nullptr || !event.defined) return;
    for (const OptimizerId owner : tensor->owners) intervals_.add(owner, event);
  }

  // Only at the owner's step it is known whether somebody cleared what others left in between.
  void on_optimizer_step(const OptimizerStepEvent& event, const RunState& state,
                         Findings& findings) override {
    if (event.with_closure || event.threw) {
      intervals_.forget(event.optimizer);
      watched_.erase(event.optimizer);
      return;
    }
    const auto closed = intervals_.close(event.optimizer, event.at.cycle);
    const OptimizerState& optimizer = state.optimizers().at(event.optimizer);
    Watched& watched = watched_[event.optimizer];
    if (!closed.stale.empty() && watched.said_in_cycle != event.at.cycle) {
      watched.said_in_cycle = event.at.cycle;
      say_stale(closed, optimizer, state, findings);
    }
    if (closed.longest > 0) learn(watched, closed.longest, optimizer, state, findings);
  }

  void on_dropped(const DroppedEvent&, const RunState&) override {
    intervals_.clear();
    watched_.clear();
  }

 private:
  struct Watched {
    std::int64_t period = 0;
    int agreed = 0;
    std::int64_t said_in_cycle = 0;
  };

  static void learn(Watched& watched, std::int64_t accumulations, const OptimizerState& optimizer,
                    const RunState& state, Findings& findings) {
    if (watched.agreed >= kGapsToLearn && accumulations > watched.period) {
      Finding finding = place(optimizer, state);
      finding.severity = Severity::kNote;
      finding.what =
          fmt::format("{} before the step, {} in each of the earlier ones (period_exceeded)",
                      counted(accumulations, "accumulation"), watched.period);
      finding.why = "a step was skipped, or the rest of an epoch was carried into the next one";
      finding.fixes = {
          {"clear the gradients where an accumulation is given up", Applicability::kNeedsDecision}};
      finding.facts = {{fact::kCause, std::string("period_exceeded")},
                       {fact::kAccumulationsCount, accumulations},
                       {fact::kPeriod, watched.period},
                       {fact::kOptimizers, as_fact({optimizer_label(optimizer)})}};
      findings.push_back(std::move(finding));
    }
    watched.agreed = accumulations == watched.period ? watched.agreed + 1 : 1;
    watched.period = accumulations;
  }

  static Finding place(const OptimizerState& optimizer, const RunState& state) {
    Finding finding;
    if (const ModelState* model = state.first_model()) finding.model = model->label;
    finding.subject = optimizer_label(optimizer);
    return finding;
  }

  /// Whether other tensors of the same model are cleared; another model has its own loop.
  bool is_cleared_in_part(const TensorState& stale, const RunState& state) const {
    const ModelState* model = state.model_of(stale);
    return std::ranges::any_of(intervals_.cleared(), [&](TensorId id) {
      const TensorState* other = state.tensor(id);
      return other != nullptr && state.model_of(*other) == model;
    });
  }

  void say_stale(const GradientIntervals::Closed& closed, const OptimizerState& optimizer,
                 const RunState& state, Findings& findings) const {
    std::vector<const TensorState*> stale;
    for (const TensorId id : closed.stale) stale.push_back(state.tensor(id));
    std::erase(stale, nullptr);
    for (const TensorGroup& group : collapse(state, stale)) {
      const bool others_cleared = is_cleared_in_part(*group.tensors.front(), state);
      const std::string cause = others_cleared ? "outside_optimizer" : "never_zeroed";
      Finding finding = about(group);
      finding.severity = others_cleared ? Severity::kWarning : Severity::kError;
      const auto count = static_cast<std::int64_t>(group.tensors.size());
      const bool all = closed.all && !others_cleared && count > 1;
      finding.what = fmt::format("gradients of earlier steps are still in {}{} ({}; {})",
                                 all ? "all " : "", counted(count, "parameter"),
                                 counted(elements_of(group.tensors), "element"), cause);
      finding.why = fmt::format("{} since they were last cleared, {} of {}, no reset in between{}",
                                counted(closed.accumulations, "accumulation"),
                                counted(optimizer.steps, "step"), optimizer_label(optimizer),
                                others_cleared ? "; others were cleared before the step" : "");
      finding.fixes = {
          {fmt::format("zero_grad() of {} before each first backward", optimizer_label(optimizer)),
           Applicability::kLikely}};
      if (others_cleared) {
        finding.fixes.push_back(
            {"or clear these too: " + joined(paths_of(group)), Applicability::kLikely});
        finding.fixes.push_back(
            {"several optimizers: zero_grad() of the model clears for all of them",
             Applicability::kLikely});
      }
      finding.facts.push_back({fact::kCause, cause});
      finding.facts.push_back({fact::kAccumulationsCount, closed.accumulations});
      finding.facts.push_back({fact::kOptimizers, as_fact({optimizer_label(optimizer)})});
      findings.push_back(std::move(finding));
    }
  }

  std::map<OptimizerId, Watched> watched_;
  GradientIntervals intervals_;
};
}  // namespace

std::unique_ptr<Check> make_optim_stale_gradient() {
  return std::make_unique<OptimStaleGradient>();
}

}  // namespace ddpscope
