#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "checks/averaged_gradients.h"
#include "checks/check.h"
#include "checks/results_text.h"
#include "checks/run_state.h"
#include "checks/subtree.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum Applicability;

/// module-trainable-changed; docs/checks/module-trainable-changed.md
class ModuleTrainableChanged final : public Check {
 public:
  void on_tree(const TreeEvent& event, const RunState&, Findings&) override { flags_.on(event); }
  void on_optimizer_members(const OptimizerMembersEvent& event, const RunState&,
                            Findings&) override {
    flags_.on(event);
  }
  void on_optimizer_step(const OptimizerStepEvent& event, const RunState&, Findings&) override {
    flags_.on(event);
  }
  void on_collective(const CollectiveEvent& event, const RunState&, Findings&) override {
    averaged_.on(event);
  }
  void on_dropped(const DroppedEvent&, const RunState&) override { flags_.forget_windows(); }

  void on_cycle_end(const CycleEndEvent& event, const RunState& state,
                    Findings& findings) override {
    averaged_.on(event, state);
    const std::vector<ChangedFlags> changes = flags_.on(event, state);
    for (const ChangedFlags& change : changes) {
      Counts counts{.new_elements = elements_with_gradients(change)};
      for (const ChangedFlags& other : changes) {
        if (other.step != change.step) continue;
        (other.trainable ? counts.on : counts.off) += std::ssize(other.tensors);
      }
      for (const TensorGroup& group : collapse(state, undeclared(change, state))) {
        judge(group, change, counts, findings, state);
      }
    }
  }

 private:
  struct Counts {
    std::int64_t on = 0;
    std::int64_t off = 0;
    std::int64_t not_averaged = 0;
    std::int64_t not_optimized = 0;
    std::int64_t still_averaged = 0;
    std::int64_t new_elements = 0;  ///< of gradients that there are since the change
  };

  static bool gets_gradients(const TensorState& tensor, const ChangedFlags& change) {
    return tensor.gradient_cycle > change.cycle;
  }

  static std::int64_t elements_with_gradients(const ChangedFlags& change) {
    std::int64_t elements = 0;
    for (const TensorState* tensor : change.tensors) {
      if (change.trainable && gets_gradients(*tensor, change)) elements += tensor->info.elements;
    }
    return elements;
  }

  static std::vector<const TensorState*> undeclared(const ChangedFlags& change,
                                                    const RunState& state) {
    std::vector<const TensorState*> tensors = change.tensors;
    std::erase_if(tensors, [&](const TensorState* tensor) {
      return state.declared(tensor->registrations.front().model, tensor_path(*tensor), "external");
    });
    return tensors;
  }

  void judge(const TensorGroup& group, const ChangedFlags& change, Counts counts,
             Findings& findings, const RunState& state) const {
    const bool all_owned = std::ranges::none_of(
        group.tensors, [](const TensorState* tensor) { return tensor->owners.empty(); });
    for (const TensorState* tensor : group.tensors) {
      const bool missed = gets_gradients(*tensor, change) &&
                          averaged_.missed_after(change.cycle, *tensor, counts.new_elements);
      counts.not_averaged += missed ? 1 : 0;
      counts.not_optimized += tensor->owners.empty() ? 1 : 0;
      counts.still_averaged += averaged_.covered_after(change.cycle, tensor->info.id) ? 1 : 0;
    }
    if (!change.trainable && counts.still_averaged == 0 && all_owned) return;
    Finding finding = about(group);
    finding.severity = severity(change, counts, state);
    finding.step = change.step;
    finding.phase = Phase::kForward;
    describe(change, counts, std::ssize(group.tensors), finding);
    if (are_results(change, group)) tell_results(change, group, finding);
    findings.push_back(std::move(finding));
  }

  static Severity severity(const ChangedFlags& change, const Counts& counts,
                           const RunState& state) {
    if (!change.trainable) return counts.still_averaged > 0 ? Severity::kWarning : Severity::kNote;
    if (counts.not_averaged > 0 && state.world_size() > 1) return Severity::kError;
    return counts.not_optimized > 0 ? Severity::kWarning : Severity::kNote;
  }

  void describe(const ChangedFlags& change, const Counts& counts, std::int64_t count,
                Finding& finding) const {
    finding.what = fmt::format("{} became {} in step {}", counted(count, "parameter"),
                               change.trainable ? "trainable" : "frozen", change.step);
    if (!change.trainable && counts.still_averaged > 0) {
      finding.what += fmt::format("; {} still averaged", counts.still_averaged);
    } else if (change.trainable) {
      const std::int64_t unheld = counts.not_averaged, untrained = counts.not_optimized;
      if (unheld > 0) finding.what += fmt::format("; {} in no collective", unheld);
      if (untrained > 0) finding.what += fmt::format("; {} in no optimizer", untrained);
    }
    const bool follows = change.trainable && counts.not_averaged + counts.not_optimized == 0;
    if (follows) finding.what += "; nothing leaves them out";
    finding.why = "what was set up for the parameters of the first step does not follow";
    if (averaged_.any()) {
      finding.why = fmt::format("averaging was set up in step {} for {}", averaged_.first_step(),
                                averaged_.extent());
    }
    finding.fixes = {
        {"set up averaging and the optimizer again after requires_grad_(...)", kLikely},
        {"freeze before they are set up", kLikely}};
    if (follows) {
      finding.why = "what was set up for the parameters of the first step follows";
      finding.fixes = {{"declare them external, if they change on purpose", kNeedsDecision}};
    }
    const std::vector<Fact> facts = {{fact::kTurnedOnCount, counts.on},
                                     {fact::kTurnedOffCount, counts.off},
                                     {fact::kAtStep, change.step},
                                     {fact::kNotAveragedCount, counts.not_averaged},
                                     {fact::kNotOptimizedCount, counts.not_optimized}};
    finding.facts.insert(finding.facts.end(), facts.begin(), facts.end());
  }

  TrainableFlags flags_;
  AveragedGradients averaged_;
};
}  // namespace

std::unique_ptr<Check> make_module_trainable_changed() {
  return std::make_unique<ModuleTrainableChanged>();
}

}  // namespace ddpscope
