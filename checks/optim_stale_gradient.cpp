#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/run_state.h"
#include "checks/subtree.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kCycles = 3;
constexpr int kGapsToLearn = 3;

/// What happened to one member between two steps of its optimizer.
struct Interval {
  std::int64_t accumulations = 0;
  std::int64_t since_clear = 0;
  bool cleared = false;
  std::int64_t stale_cycles = 0;  ///< in a row
  std::int64_t stale_cycle = 0;   ///< the last one
};

struct Watched {
  std::unordered_map<TensorId, Interval> members;
  std::int64_t period = 0;
  int agreed = 0;
  std::int64_t said_in_cycle = 0;
};

/// optim-stale-gradient; docs/checks/optim-stale-gradient.md
class OptimStaleGradient final : public Check {
 public:
  void on_gradient(const GradientEvent& event, const RunState& state, Findings&) override {
    const TensorState* tensor = state.tensor(event.tensor);
    if (tensor == nullptr || !event.defined) return;
    for (const OptimizerId owner : tensor->owners) {
      Interval& interval = optimizers_[owner].members[event.tensor];
      if (event.before != GradientBefore::kKept) {
        interval.cleared = true;
        interval.since_clear = 0;
      }
      ++interval.accumulations;
      ++interval.since_clear;
    }
  }

  // Only at the owner's step it is known whether somebody cleared what others left in between.
  void on_optimizer_step(const OptimizerStepEvent& event, const RunState& state,
                         Findings& findings) override {
    if (event.with_closure || event.threw) {
      optimizers_.erase(event.optimizer);
      return;
    }
    Watched& watched = optimizers_[event.optimizer];
    std::vector<const TensorState*> stale;
    std::vector<const TensorState*> clean;
    std::int64_t accumulations = 0;
    std::int64_t longest = 0;
    for (auto& [id, interval] : watched.members) {
      const TensorState* tensor = state.tensor(id);
      if (interval.accumulations == 0 || tensor == nullptr) continue;
      close(interval, event.at.cycle);
      if (interval.stale_cycles >= kCycles) {
        stale.push_back(tensor);
        accumulations = std::max(accumulations, interval.since_clear);
      } else {
        clean.push_back(tensor);
      }
      if (interval.cleared) longest = std::max(longest, interval.since_clear);
      interval.accumulations = 0;
      interval.cleared = false;
    }
    const OptimizerState& optimizer = state.optimizers().at(event.optimizer);
    if (!stale.empty() && watched.said_in_cycle != event.at.cycle) {
      watched.said_in_cycle = event.at.cycle;
      say_stale({stale, clean, accumulations}, optimizer, state, findings);
    }
    if (longest > 0) learn(watched, longest, optimizer, state, findings);
  }

  void on_dropped() override { optimizers_.clear(); }

 private:
  struct Stale {
    std::vector<const TensorState*> tensors;
    std::vector<const TensorState*> clean;
    std::int64_t accumulations = 0;
  };

  static void close(Interval& interval, std::int64_t cycle) {
    if (interval.cleared) {
      interval.stale_cycles = 0;
    } else if (interval.stale_cycle != cycle) {
      interval.stale_cycle = cycle;
      ++interval.stale_cycles;
    }
  }

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

  static void say_stale(const Stale& stale, const OptimizerState& optimizer, const RunState& state,
                        Findings& findings) {
    const std::string cause = stale.clean.empty() ? "never_zeroed" : "outside_optimizer";
    for (const TensorGroup& group : collapse(state, stale.tensors)) {
      Finding finding = about(group);
      finding.severity = stale.clean.empty() ? Severity::kError : Severity::kWarning;
      const auto count = static_cast<std::int64_t>(group.tensors.size());
      finding.what =
          fmt::format("gradients of earlier steps are still in {}{} ({}; {})",
                      stale.clean.empty() && count > 1 ? "all " : "", counted(count, "parameter"),
                      counted(elements_of(group.tensors), "element"), cause);
      finding.why = fmt::format("{} since they were last cleared, {} of {}, no reset in between",
                                counted(stale.accumulations, "accumulation"),
                                counted(optimizer.steps, "step"), optimizer_label(optimizer));
      finding.fixes = {
          {fmt::format("zero_grad() of {} before each first backward", optimizer_label(optimizer)),
           Applicability::kLikely}};
      if (!stale.clean.empty()) {
        finding.fixes.push_back(
            {"or clear these too: " + joined(paths_of(group)), Applicability::kLikely});
      }
      finding.facts.push_back({fact::kCause, cause});
      finding.facts.push_back({fact::kAccumulationsCount, stale.accumulations});
      finding.facts.push_back({fact::kOptimizers, as_fact({optimizer_label(optimizer)})});
      findings.push_back(std::move(finding));
    }
  }

  std::map<OptimizerId, Watched> optimizers_;
};
}  // namespace

std::unique_ptr<Check> make_optim_stale_gradient() {
  return std::make_unique<OptimStaleGradient>();
}

}  // namespace ddpscope
