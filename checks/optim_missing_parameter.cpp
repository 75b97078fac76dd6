#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <unordered_set>

#include "checks/built_before.h"
#include "checks/call_text.h"
#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/held_copy.h"
#include "checks/left_out_text.h"
#include "checks/ownerless.h"
#include "checks/run_state.h"
#include "checks/sent_parameters.h"
#include "checks/subtree.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kFirstCycles = 2;

/// optim-missing-parameter; docs/checks/optim-missing-parameter.md
class OptimMissingParameter final : public Check {
 public:
  void on_cycle_end(const CycleEndEvent& event, const RunState& state,
                    Findings& findings) override {
    if (event.at.cycle < kFirstCycles) return;
    complete_cycles_ = event.at.cycle;
    if (state.optimizers_known()) judge(state, findings);
  }

  void on_collective(const CollectiveEvent& event, const RunState&, Findings&) override {
    sent_.on(event);
  }

  void on_optimizer_step(const OptimizerStepEvent& event, const RunState&, Findings&) override {
    sent_.on(event);
  }

  void on_exit(const ExitEvent&, const RunState& state, Findings& findings) override {
    if (complete_cycles_ >= kFirstCycles) judge(state, findings);
  }

 private:
  void judge(const RunState& state, Findings& findings) {
    const bool some_stepped = std::ranges::any_of(
        state.optimizers(), [](const auto& entry) { return entry.second.steps > 0; });
    const bool all_known = std::ranges::all_of(state.optimizers(), [](const auto& entry) {
      return entry.second.steps == 0 || entry.second.members_known;
    });
    if (!some_stepped || !all_known) return;
    std::map<LeftOut, std::vector<const TensorState*>> missing;
    for (const auto& [id, tensor] : state.tensors().all()) {
      if (!is_ownerless(state, tensor) || reported_.contains(id)) continue;
      // A copy that is overwritten from elsewhere is not trained on purpose.
      if (tensor.written_by == "aten::copy_") continue;
      reported_.insert(id);
      const bool built_before = was_built_before(state, tensor, kFirstCycles);
      missing[{.built_before = built_before,
               .written_by = tensor.written_by,
               .sent_in = sent_.call_of(id),
               .is_sent_from_here = sent_.is_sent_from_here(id),
               .is_fixed = is_in_fixed_part(state, tensor)}]
          .push_back(&tensor);
    }
    const bool some_sent = std::ranges::any_of(
        missing, [](const auto& entry) { return !entry.first.sent_in.empty(); });
    for (auto& [found, tensors] : missing) {
      LeftOut kind = found;
      if (!kind.built_before && kind.sent_in.empty() && sent_.gathers(tensors, state)) {
        kind.sent_in = call_word(CollectiveKind::kAllGather);
      }
      kind.beside_sent = some_sent && kind.sent_in.empty();
      for (const TensorGroup& group : collapse(state, tensors)) {
        findings.push_back(describe(group, kind, state));
      }
    }
  }

  static Finding describe(const TensorGroup& group, LeftOut kind, const RunState& state) {
    const HeldCopy copy = held_copy_of(group.tensors, state, kFirstCycles);
    kind.built_before |= copy.optimizer != nullptr && copy.model.empty();
    const std::string cause = kind.built_before ? "built_before" : "group_omits";
    const bool registered = !group.tensors.front()->registrations.empty();
    Finding finding = about(group);
    const bool is_updated = !kind.written_by.empty() || !kind.sent_in.empty();
    finding.severity = is_updated || kind.is_fixed ? Severity::kNote : Severity::kError;
    finding.phase = Phase::kOptimizer;
    finding.what = fmt::format("{} ({}) {} and {} in no optimizer ({})",
                               counted(static_cast<std::int64_t>(group.tensors.size()),
                                       registered ? "parameter" : "tensor"),
                               counted(elements_of(group.tensors), "element"),
                               group.tensors.size() == 1 ? "gets gradients" : "get gradients",
                               group.tensors.size() == 1 ? "is" : "are", cause);
    finding.why = why_left_out(group, kind);
    finding.fixes = fixes_for_left_out(kind);
    if (copy.optimizer != nullptr) say_copy(copy, finding);
    finding.facts.push_back({fact::kCause, cause});
    finding.facts.push_back(
        {fact::kOptimizersCount, static_cast<std::int64_t>(state.optimizers().size())});
    return finding;
  }

  std::int64_t complete_cycles_ = 0;
  std::unordered_set<TensorId> reported_;
  SentParameters sent_;
};
}  // namespace

std::unique_ptr<Check> make_optim_missing_parameter() {
  return std::make_unique<OptimMissingParameter>();
}

}  // namespace ddpscope
