#include <algorithm>
#include <map>
#include <memory>
#include <unordered_set>

#include "checks/built_before.h"
#include "checks/call_text.h"
#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/fixed_models.h"
#include "checks/held_copy.h"
#include "checks/lapsed_owners.h"
#include "checks/left_out_text.h"
#include "checks/ownerless.h"
#include "checks/run_state.h"
#include "checks/sent_parameters.h"
#include "checks/subtree.h"
#include "checks/target_text.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kFirstCycles = 2;
constexpr std::int64_t kStepsApart = 4;

/// optim-missing-parameter; docs/checks/optim-missing-parameter.md
class OptimMissingParameter final : public Check {
 public:
  void on_cycle_end(const CycleEndEvent& event, const RunState& state,
                    Findings& findings) override {
    if (event.at.cycle < kFirstCycles) return;
    complete_cycles_ = event.at.cycle;
    if (state.optimizers_known()) judge(state, /*at_exit=*/false, findings);
  }

  void on_collective(const CollectiveEvent& event, const RunState&, Findings&) override {
    sent_.on(event);
  }

  void on_optimizer_step(const OptimizerStepEvent& event, const RunState&, Findings&) override {
    sent_.on(event);
  }

  void on_exit(const ExitEvent&, const RunState& state, Findings& findings) override {
    if (complete_cycles_ >= kFirstCycles) judge(state, /*at_exit=*/true, findings);
  }

 private:
  using Missing = std::map<LeftOut, std::vector<const TensorState*>>;

  void judge(const RunState& state, bool at_exit, Findings& findings) {
    const bool some_stepped = std::ranges::any_of(
        state.optimizers(), [](const auto& entry) { return entry.second.steps > 0; });
    const bool all_known = std::ranges::all_of(state.optimizers(), [](const auto& entry) {
      return entry.second.steps == 0 || entry.second.members_known;
    });
    if (!some_stepped || !all_known) return;
    const Missing missing = collect(state, at_exit);
    const bool some_sent = std::ranges::any_of(
        missing, [](const auto& entry) { return !entry.first.sent_in.empty(); });
    for (const auto& [found, tensors] : missing) {
      LeftOut kind = found;
      const bool is_omitted = !kind.built_before && kind.lapse == Lapse::kNone;
      if (is_omitted && kind.sent_in.empty() && sent_.gathers(tensors, state)) {
        kind.sent_in = call_word(CollectiveKind::kAllGather);
      }
      kind.beside_sent = some_sent && kind.sent_in.empty();
      for (const TensorGroup& group : collapse(state, tensors)) {
        findings.push_back(describe(group, kind, state));
      }
    }
  }

  Missing collect(const RunState& state, bool at_exit) {
    Missing missing;
    lapsed_.begin(state, at_exit);
    for (const auto& [id, tensor] : state.tensors().all()) {
      const Lapsed lapsed = tensor.owners.empty() ? Lapsed{} : lapsed_.of(state, tensor);
      const bool is_held = !tensor.owners.empty() && lapsed.how == Lapse::kNone;
      if (is_held || reported_.contains(id) || !needs_owner(state, tensor)) continue;
      // A copy that is overwritten from elsewhere is not trained on purpose.
      if (tensor.written_by == "aten::copy_" || tensor.is_given_data()) continue;
      // Two addresses may come by turns: cycles in a row, or many, show that it keeps its memory.
      const std::int64_t steps = at_exit ? kFirstCycles : kStepsApart;
      if (tensor.cycles_kept == 0 && tensor.reached_steps < steps) continue;
      if (lapsed.how != Lapse::kNone && is_updated(tensor)) continue;
      reported_.insert(id);
      missing[kind_of(state, tensor, lapsed)].push_back(&tensor);
    }
    return missing;
  }

  bool is_updated(const TensorState& tensor) const {
    return !tensor.written_by.empty() || !sent_.call_of(tensor.info.id).empty();
  }

  LeftOut kind_of(const RunState& state, const TensorState& tensor, const Lapsed& lapsed) const {
    LeftOut kind{.written_by = tensor.written_by,
                 .sent_in = sent_.call_of(tensor.info.id),
                 .is_sent_from_here = sent_.is_sent_from_here(tensor.info.id),
                 .is_fixed = is_in_fixed_part(state, tensor),
                 .is_behind = is_behind_members(state, tensor),
                 .lapse = lapsed.how};
    if (lapsed.how == Lapse::kNone) {
      kind.built_before = was_built_before(state, tensor, kFirstCycles);
    } else {
      kind.owner = lapsed.owner->id;
      kind.other = lapsed.other->id;
    }
    return kind;
  }

  static Finding describe(const TensorGroup& group, LeftOut kind, const RunState& state) {
    HeldCopy copy;
    if (kind.lapse == Lapse::kNone) copy = held_copy_of(group.tensors, state, kFirstCycles);
    const bool is_clone = !copy.was_registered && are_whole_model(group.tensors, state);
    kind.built_before |= copy.optimizer != nullptr && copy.model.empty() && !is_clone;
    Finding finding = about(group);
    finding.severity = severity_of_left_out(kind);
    finding.phase = Phase::kOptimizer;
    finding.what = what_is_left_out(group, kind);
    finding.why = why_left_out(group, kind, state);
    finding.fixes = fixes_for_left_out(kind, state);
    if (copy.optimizer != nullptr) {
      say_copy(copy, finding);
    } else if (kind.lapse == Lapse::kNone || kind.lapse == Lapse::kNeverStepped) {
      say_target(group.tensors, state, finding);
    }
    finding.facts.push_back({fact::kCause, cause_of_left_out(kind)});
    finding.facts.push_back(
        {fact::kOptimizersCount, static_cast<std::int64_t>(state.optimizers().size())});
    return finding;
  }

  std::int64_t complete_cycles_ = 0;
  std::unordered_set<TensorId> reported_;
  SentParameters sent_;
  LapsedOwners lapsed_;
};
}  // namespace

std::unique_ptr<Check> make_optim_missing_parameter() {
  return std::make_unique<OptimMissingParameter>();
}

}  // namespace ddpscope
