#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/foreign_gradients.h"
#include "checks/gradient_intervals.h"
#include "checks/own_updates.h"
#include "checks/run_state.h"
#include "checks/stale_gradients.h"
#include "checks/zeroed_gradients.h"

namespace ddpscope {
namespace {
/// optim-stale-gradient; docs/checks/optim-stale-gradient.md
class OptimStaleGradient final : public Check {
 public:
  void on_gradient(const GradientEvent& event, const RunState& state, Findings&) override {
    const TensorState* tensor = state.tensor(event.tensor);
    if (event.at.step > last_step_ + 1) intervals_.rested();
    last_step_ = event.at.step;
    if (tensor == nullptr || !event.defined || tensor->left_with_root) return;
    GradientEvent seen = event;
    seen.before = zeroed_.before(event);
    for (const OptimizerId owner : tensor->owners) intervals_.add(owner, seen);
    if (state.optimizers().size() > 1) foreign_.add(seen, tensor->owners);
    if (is_updated_by_program(*tensor, state)) own_.add(seen);
  }

  void on_gradient_values(const GradientValuesEvent& event, const RunState&, Findings&) override {
    zeroed_.add(event);
  }

  void on_zero_grad(const ZeroGradEvent& event, const RunState& state, Findings&) override {
    intervals_.clear(event.optimizer);
    beside_.zero_grad(event.optimizer);
    const auto optimizer = state.optimizers().find(event.optimizer);
    if (optimizer != state.optimizers().end()) foreign_.zero_grad(optimizer->second);
  }

  // Only at the owner's step it is known whether somebody cleared what others left in between.
  void on_optimizer_step(const OptimizerStepEvent& event, const RunState& state,
                         Findings& findings) override {
    last_step_ = event.at.step;
    beside_.step(event.optimizer);
    if (event.with_closure || event.threw) {
      intervals_.forget(event.optimizer);
      foreign_.forget(event.optimizer);
      watched_.erase(event.optimizer);
      return;
    }
    const auto closed = intervals_.close(event.optimizer, event.at.cycle);
    const OptimizerState& optimizer = state.optimizers().at(event.optimizer);
    for (const auto& applied : foreign_.step(event, optimizer)) {
      say_foreign(applied, state, findings);
    }
    Watched& watched = watched_[event.optimizer];
    watched.withheld.reset();
    if (!closed.never.parameters.empty()) {
      StaleGradients stale = describe(closed, closed.never, optimizer, watched.period.value());
      stale.cleared_instead = cleared_instead_of(optimizer, beside_, state);
      if (may_be_within_another_loop(optimizer, closed.zeroed_first, beside_, state)) {
        watched.withheld = std::move(stale);
      } else {
        watched.never.say(std::move(stale), state, findings);
      }
    }
    if (!closed.now_and_then.parameters.empty()) {
      watched.some.say(describe(closed, closed.now_and_then, optimizer, watched.period.value()),
                       state, findings);
    }
    const std::int64_t usual = watched.period.exceeded_by(closed.longest);
    if (usual > 0) findings.push_back(period_exceeded(closed.longest, usual, optimizer, state));
  }

  // Before an optimizer's first step, which may not be seen, a cycle is long.
  void on_backward_end(const BackwardEndEvent& event, const RunState& state,
                       Findings& findings) override {
    foreign_.backward_ended();
    OwnUpdates::Closed closed = own_.close(event.at.cycle, [&state](TensorId id) {
      const TensorState* tensor = state.tensor(id);
      return tensor != nullptr && is_updated_by_program(*tensor, state);
    });
    say_stale(std::move(closed), state, findings);
  }

  void on_exit(const ExitEvent&, const RunState& state, Findings& findings) override {
    for (const auto& [id, watched] : watched_) {
      if (watched.withheld.has_value()) say_stale(*watched.withheld, state, findings);
    }
  }

  void on_dropped(const DroppedEvent&, const RunState&) override {
    own_.clear();
    foreign_.clear();
    intervals_.clear();
    watched_.clear();
    zeroed_.clear();
  }

 private:
  struct Watched {
    AccumulationPeriod period;
    SaidStale never;
    SaidStale some;
    std::optional<StaleGradients> withheld;  ///< until it is known whether they are never cleared
  };

  StaleGradients describe(const GradientIntervals::Closed& closed,
                          const GradientIntervals::Stale& stale, const OptimizerState& optimizer,
                          std::int64_t period) const {
    const bool now_and_then = &stale == &closed.now_and_then;
    const auto& others = now_and_then ? closed.never : closed.now_and_then;
    const std::string label = optimizer_label(optimizer);
    return {.parameters = stale.parameters,
            .all = closed.all && others.parameters.empty(),
            .now_and_then = now_and_then,
            .accumulations = stale.accumulations,
            .period = period,
            .updates = fmt::format("{} of {}", counted(stale.steps, "step"), label),
            .clearing = fmt::format("zero_grad() of {}", label),
            .optimizers = {label},
            .cleared = intervals_.cleared()};
  }

  std::int64_t last_step_ = 0;
  std::map<OptimizerId, Watched> watched_;
  GradientIntervals intervals_;
  ClearedBeside beside_;
  ForeignGradients foreign_;
  OwnUpdates own_;
  ZeroedGradients zeroed_;
};
}  // namespace

std::unique_ptr<Check> make_optim_stale_gradient() {
  return std::make_unique<OptimStaleGradient>();
}

}  // namespace ddpscope
