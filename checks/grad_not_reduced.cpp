#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/reducer_passes.h"
#include "checks/run_state.h"
#include "checks/subtree.h"
#include "checks/unreduced_gradients.h"
#include "checks/unreduced_parts.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum Applicability;

/// grad-not-reduced; docs/checks/grad-not-reduced.md
class GradNotReduced final : public Check {
 public:
  void on_reducer(const ReducerEvent& event, const RunState& state, Findings& findings) override {
    tell(passes_.on(event), state, findings);
  }

  void on_optimizer_step(const OptimizerStepEvent& event, const RunState& state,
                         Findings& findings) override {
    tell(passes_.on(event, state), state, findings);
  }

  void on_dropped(const DroppedEvent&, const RunState&) override { passes_.clear(); }

  void on_ranks_compared(const RanksComparedEvent& run, Findings& findings) override {
    for (const Cohort& cohort : run.cohorts) {
      if (cohort.ranks.size() < 2) continue;
      find_unreduced(cohort, like(cohort, run), run.live, findings);
      find_unreduced_parts(cohort, findings);
    }
    find_split(run, findings);
  }

 private:
  /// Others average as many replicas, where these were made equal by broadcasts as well.
  static const Cohort* like(const Cohort& cohort, const RanksComparedEvent& run) {
    if (cohort.averages || !cohort.equal_at_start || !cohort.broadcasts_at_start) return nullptr;
    const auto found = std::ranges::find_if(run.cohorts, [&cohort](const Cohort& other) {
      return other.averages && other.ranks.size() == cohort.ranks.size();
    });
    return found == run.cohorts.end() ? nullptr : &*found;
  }

  static void tell(const ReducerPasses::Passes& passes, const RunState& state, Findings& findings) {
    for (const ReducerEvent& pass : passes) {
      if (pass.only_counts && pass.ranks > 1) findings.push_back(describe(pass, state));
    }
  }

  static Finding describe(const ReducerEvent& pass, const RunState& state) {
    Finding finding;
    finding.severity = Severity::kError;
    finding.step = pass.at.step;
    finding.phase = Phase::kReduce;
    finding.op = "c10d::Reducer";
    std::vector<const TensorState*> tensors;
    for (const TensorId id : pass.parameters) {
      if (const TensorState* tensor = state.tensor(id)) tensors.push_back(tensor);
    }
    const ModelState* model =
        tensors.empty() ? state.first_model() : state.model_of(*tensors.front());
    if (model != nullptr) finding.model = model->label;
    const auto count = static_cast<std::int64_t>(pass.parameters.size());
    finding.what = fmt::format("{} of this rank's own {} used, on {} ranks: static_graph",
                               counted(count, "gradient"), count == 1 ? "was" : "were", pass.ranks);
    finding.why =
        "after set_static_graph() backward only counts gradients until delay_all_reduce() has been "
        "called after the first one; it was not, so nothing is averaged and the replicas part";
    finding.fixes = {
        {"call delay_all_reduce() of the Reducer after the first backward, before step()", kSafe},
        {"leave out set_static_graph()", kSafe}};
    finding.facts = {{fact::kCause, std::string("static_graph")},
                     {fact::kParametersCount, count},
                     {fact::kReducerPresent, true}};
    return finding;
  }

  ReducerPasses passes_;
};
}  // namespace

std::unique_ptr<Check> make_grad_not_reduced() { return std::make_unique<GradNotReduced>(); }

}  // namespace ddpscope
