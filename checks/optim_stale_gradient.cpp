#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/gradient_intervals.h"
#include "checks/own_updates.h"
#include "checks/run_state.h"
#include "checks/stale_gradients.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
constexpr int kGapsToLearn = 3;

/// optim-stale-gradient; docs/checks/optim-stale-gradient.md
class OptimStaleGradient final : public Check {
 public:
  void on_gradient(const GradientEvent& event, const RunState& state, Findings&) override {
    const TensorState* tensor = state.tensor(event.tensor);
    if (tensor == nullptr || !event.defined || tensor->left_with_root) return;
    for (const OptimizerId owner : tensor->owners) intervals_.add(owner, event);
    if (is_updated_by_program(*tensor, state)) own_.add(event);
  }

  void on_zero_grad(const ZeroGradEvent& event, const RunState&, Findings&) override {
    intervals_.clear(event.optimizer);
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
    const bool is_mixed =
        !closed.never.parameters.empty() && !closed.now_and_then.parameters.empty();
    const auto say = [&](const GradientIntervals::Stale& stale, bool now_and_then) {
      std::int64_t& said = now_and_then ? watched.said_of_some : watched.said_of_never;
      if (stale.parameters.empty() || std::exchange(said, event.at.cycle) == event.at.cycle) return;
      const std::string label = optimizer_label(optimizer);
      say_stale({.parameters = stale.parameters,
                 .all = closed.all && !is_mixed,
                 .now_and_then = now_and_then,
                 .accumulations = stale.accumulations,
                 .period = watched.period,
                 .updates = fmt::format("{} of {}", counted(stale.steps, "step"), label),
                 .clearing = fmt::format("zero_grad() of {}", label),
                 .optimizers = {label},
                 .cleared = intervals_.cleared()},
                state, findings);
    };
    say(closed.never, /*now_and_then=*/false);
    say(closed.now_and_then, /*now_and_then=*/true);
    if (closed.longest > 0) learn(watched, closed.longest, optimizer, state, findings);
  }

  // Before an optimizer's first step, which may not be seen, a cycle is long.
  void on_backward_end(const BackwardEndEvent& event, const RunState& state,
                       Findings& findings) override {
    OwnUpdates::Closed closed = own_.close(event.at.cycle, [&state](TensorId id) {
      const TensorState* tensor = state.tensor(id);
      return tensor != nullptr && is_updated_by_program(*tensor, state);
    });
    if (closed.stale.empty()) return;
    say_stale({.parameters = std::move(closed.stale),
               .all = closed.cleared.empty(),
               .accumulations = closed.accumulations,
               .updates = counted(closed.updates, "update") + " by the program's own code",
               .clearing = "zero_grad() of the model",
               .cleared = std::move(closed.cleared)},
              state, findings);
  }

  void on_dropped(const DroppedEvent&, const RunState&) override {
    own_.clear();
    intervals_.clear();
    watched_.clear();
  }

 private:
  struct Watched {
    std::int64_t period = 0;
    int agreed = 0;
    std::int64_t said_of_never = 0;  ///< in that cycle
    std::int64_t said_of_some = 0;
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

  /// Of a model, and no optimizer holds it whose steps are seen: those of a class of the program's
  /// own are not.
  static bool is_updated_by_program(const TensorState& tensor, const RunState& state) {
    return !tensor.registrations.empty() &&
           std::ranges::none_of(tensor.owners, [&state](OptimizerId owner) {
             const auto known = state.optimizers().find(owner);
             return known != state.optimizers().end() && known->second.steps > 0;
           });
  }

  static Finding place(const OptimizerState& optimizer, const RunState& state) {
    Finding finding;
    if (const ModelState* model = state.model_of(optimizer)) finding.model = model->label;
    finding.subject = optimizer_label(optimizer);
    return finding;
  }

  std::map<OptimizerId, Watched> watched_;
  GradientIntervals intervals_;
  OwnUpdates own_;
};
}  // namespace

std::unique_ptr<Check> make_optim_stale_gradient() {
  return std::make_unique<OptimStaleGradient>();
}

}  // namespace ddpscope
