#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <unordered_set>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/run_state.h"
#include "checks/subtree.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kMissingCycles = 2;

bool is_candidate(const RunState& state, const TensorState& tensor) {
  if (tensor.gradients == 0 || !tensor.owners.empty()) return false;
  // Without an attached module, leaves that are used in two steps stand in for parameters.
  if (tensor.registrations.empty()) {
    return !state.had_models() && tensor.reached_steps >= 2 && tensor.info.floating;
  }
  const Registration& at = tensor.registrations.front();
  return state.eligible(tensor) && tensor.info.requires_grad &&
         !state.declared(at.model, tensor_path(tensor), "external");
}

/// The optimizer was built before the parameter was registered, or still holds its predecessor.
bool was_built_before(const RunState& state, const TensorState& tensor) {
  for (const auto& [id, optimizer] : state.optimizers()) {
    if (optimizer.steps == 0 || !optimizer.members_known) continue;
    const bool stepped = optimizer.last_step_cycle + kMissingCycles >= state.now().cycle;
    if (!stepped) continue;  // of an earlier loop
    if (optimizer.creation_seen && tensor.registered_at > optimizer.first_seen) return true;
    for (const auto& group : optimizer.groups) {
      for (const OptimizerMember& member : group) {
        const TensorState* other = state.tensor(member.tensor);
        const bool predecessor = other != nullptr && other->registrations.empty() &&
                                 other->first_seen < tensor.first_seen &&
                                 !other->info.shape.empty() &&
                                 other->info.shape == tensor.info.shape;
        if (predecessor && !tensor.registrations.empty()) return true;
      }
    }
  }
  return false;
}

/// optim-missing-parameter; docs/checks/optim-missing-parameter.md
class OptimMissingParameter final : public Check {
 public:
  void on_cycle_end(const CycleEndEvent& event, const RunState& state,
                    Findings& findings) override {
    if (event.at.cycle < kMissingCycles) return;
    complete_cycles_ = event.at.cycle;
    if (state.optimizers_known()) judge(state, findings);
  }

  void on_exit(const ExitEvent&, const RunState& state, Findings& findings) override {
    if (complete_cycles_ >= kMissingCycles) judge(state, findings);
  }

 private:
  struct Kind {
    bool built_before = false;
    std::string written_by;
    auto operator<=>(const Kind&) const = default;
  };

  void judge(const RunState& state, Findings& findings) {
    const bool some_stepped = std::ranges::any_of(
        state.optimizers(), [](const auto& entry) { return entry.second.steps > 0; });
    const bool all_known = std::ranges::all_of(state.optimizers(), [](const auto& entry) {
      return entry.second.steps == 0 || entry.second.members_known;
    });
    if (!some_stepped || !all_known) return;
    std::map<Kind, std::vector<const TensorState*>> missing;
    for (const auto& [id, tensor] : state.tensors().all()) {
      if (!is_candidate(state, tensor) || reported_.contains(id)) continue;
      // A copy that is overwritten from elsewhere is not trained on purpose.
      if (tensor.written_by == "aten::copy_") continue;
      reported_.insert(id);
      missing[{was_built_before(state, tensor), tensor.written_by}].push_back(&tensor);
    }
    for (const auto& [kind, tensors] : missing) {
      for (const TensorGroup& group : collapse(state, tensors)) {
        findings.push_back(describe(group, kind, state));
      }
    }
  }

  static Finding describe(const TensorGroup& group, const Kind& kind, const RunState& state) {
    const std::string cause = kind.built_before ? "built_before" : "group_omits";
    const bool registered = !group.tensors.front()->registrations.empty();
    Finding finding = about(group);
    finding.severity = kind.written_by.empty() ? Severity::kError : Severity::kNote;
    finding.phase = Phase::kOptimizer;
    finding.what = fmt::format("{} ({}) {} and {} in no optimizer ({})",
                               counted(static_cast<std::int64_t>(group.tensors.size()),
                                       registered ? "parameter" : "tensor"),
                               counted(elements_of(group.tensors), "element"),
                               group.tensors.size() == 1 ? "gets gradients" : "get gradients",
                               group.tensors.size() == 1 ? "is" : "are", cause);
    finding.why = kind.built_before
                      ? "registered after the optimizer was built"
                      : "the lists given to the optimizers do not name them; largest " +
                            joined(largest_shapes(group.tensors));
    if (!kind.written_by.empty()) {
      finding.why += fmt::format("; the program writes them itself with {}", kind.written_by);
    }
    finding.fixes = {
        {"build the optimizer after the last change of the model", Applicability::kLikely},
        {"optimizer.add_param_group(...) with these parameters", Applicability::kLikely},
        {"requires_grad_(false), if they are to stay as they are", Applicability::kNeedsDecision}};
    finding.facts.push_back({fact::kCause, cause});
    finding.facts.push_back(
        {fact::kOptimizersCount, static_cast<std::int64_t>(state.optimizers().size())});
    return finding;
  }

  std::int64_t complete_cycles_ = 0;
  std::unordered_set<TensorId> reported_;
};
}  // namespace

std::unique_ptr<Check> make_optim_missing_parameter() {
  return std::make_unique<OptimMissingParameter>();
}

}  // namespace ddpscope
