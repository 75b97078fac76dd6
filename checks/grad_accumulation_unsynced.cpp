#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "checks/averaged_backwards.h"
#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/run_state.h"
#include "checks/unsynced_ranks.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum Applicability;
constexpr std::int64_t kPeriodsInARow = 2;

/// grad-accumulation-unsynced; docs/checks/grad-accumulation-unsynced.md
class GradAccumulationUnsynced final : public Check {
 public:
  void on_backward(const BackwardEvent& event, const RunState&, Findings&) override {
    if (event.accumulates) ++backward_;
  }

  void on_gradient(const GradientEvent& event, const RunState&, Findings&) override {
    if (event.defined) arrived_[event.tensor].insert(backward_);
  }

  void on_collective(const CollectiveEvent& event, const RunState&, Findings&) override {
    averaged_.on(event, backward_);
  }

  void on_optimizer_step(const OptimizerStepEvent& event, const RunState& state,
                         Findings& findings) override {
    const auto optimizer = state.optimizers().find(event.optimizer);
    if (optimizer == state.optimizers().end()) return;
    const std::set<std::int64_t> backwards = take_backwards_of(optimizer->second);
    if (event.threw || backwards.empty()) return;
    if (backwards.size() == 1) {
      rows_.erase(event.optimizer);
      return;
    }
    const Pattern pattern = averaged_.pattern_of(backwards, optimizer->second, state);
    Row& row = rows_[event.optimizer];
    if (!is_unsynced(pattern)) {
      row = {};
      return;
    }
    if (row.periods == 0 || row.pattern != pattern) row = {.pattern = pattern, .periods = 0};
    if (row.periods++ == 0) row.first_step = event.at.step;
    row.with_closure = event.with_closure;
    if (row.periods >= kPeriodsInARow) {
      findings.push_back(describe(row, optimizer->second, state));
    }
  }

  void on_ranks_compared(const RanksComparedEvent& run, Findings& findings) override {
    for (const Cohort& cohort : run.cohorts) find_unsynced(cohort, findings);
  }

  void on_dropped(const DroppedEvent&, const RunState&) override {
    arrived_.clear();
    averaged_.clear();
    rows_.clear();
  }

 private:
  using Pattern = AveragedBackwards::Pattern;
  struct Row {
    Pattern pattern;
    std::int64_t periods = 0;
    std::int64_t first_step = 0;
    bool with_closure = false;
  };

  static bool is_unsynced(const Pattern& pattern) {
    return std::ranges::find(pattern, true) != pattern.end() && !pattern.back();
  }

  /// Those that brought a gradient to what the optimizer steps.
  std::set<std::int64_t> take_backwards_of(const OptimizerState& optimizer) {
    std::set<std::int64_t> backwards;
    for (const auto& group : optimizer.groups) {
      for (const OptimizerMember& member : group) {
        const auto arrived = arrived_.extract(member.tensor);
        if (!arrived.empty()) backwards.insert(arrived.mapped().begin(), arrived.mapped().end());
      }
    }
    return backwards;
  }

  static Finding describe(const Row& row, const OptimizerState& optimizer, const RunState& state) {
    const auto period = std::ssize(row.pattern);
    std::vector<FactScalar> synced;
    std::vector<std::string> words;
    for (std::int64_t i = 0; i < period; ++i) {
      if (!row.pattern[static_cast<std::size_t>(i)]) continue;
      synced.emplace_back(i + 1);
      words.push_back(std::to_string(i + 1));
    }
    const bool is_first = words.size() == 1 && words.front() == "1";
    const std::string cause = is_first ? "off_by_one" : "last_unsynced";
    Finding finding;
    finding.severity = Severity::kError;
    finding.phase = Phase::kReduce;
    finding.step = row.first_step;
    if (const ModelState* model = state.model_of(optimizer)) finding.model = model->label;
    finding.what = fmt::format("backward {} of {} before step() was not averaged, {} {} {} ({})",
                               period, period, words.size() == 1 ? "backward" : "backwards",
                               joined(words), words.size() == 1 ? "was" : "were", cause);
    finding.why = fmt::format(
        "{} backwards per step, and none of the collectives that average gradients ran after the "
        "last one had begun: what it adds is this rank's own",
        period);
    finding.fixes = {{fmt::format("average when `(i + 1) % {} == 0`", period), kLikely},
                     {"average once, after the loop over the parts of a step", kSafe}};
    if (row.with_closure) {
      finding.fixes = {{"average in the closure that step() gets, after its backward", kSafe}};
    }
    finding.facts = {
        {fact::kCause, cause}, {fact::kPeriod, period}, {fact::kSyncedMicroBatches, synced}};
    return finding;
  }

  std::int64_t backward_ = 0;                           ///< number of the last one that began
  std::map<TensorId, std::set<std::int64_t>> arrived_;  ///< since its optimizer stepped
  AveragedBackwards averaged_;
  std::map<OptimizerId, Row> rows_;
};
}  // namespace

std::unique_ptr<Check> make_grad_accumulation_unsynced() {
  return std::make_unique<GradAccumulationUnsynced>();
}

}  // namespace ddpscope
