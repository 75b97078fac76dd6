#include <map>
#include <memory>
#include <set>

#include "checks/check.h"
#include "checks/repetitions.h"
#include "checks/run_state.h"

namespace ddpscope {
namespace {
/// module-shared-twice; docs/checks/module-shared-twice.md
class ModuleSharedTwice final : public Check {
 public:
  void on_optimizer_members(const OptimizerMembersEvent& event, const RunState&,
                            Findings&) override {
    unjudged_.insert(event.optimizer);
  }

  void on_optimizer_step(const OptimizerStepEvent& event, const RunState& state,
                         Findings& findings) override {
    if (unjudged_.erase(event.optimizer) == 0) return;
    std::map<TensorId, std::int64_t> times;
    std::map<TensorId, std::set<std::size_t>> groups_of;
    std::map<std::pair<std::uint64_t, std::int64_t>, std::vector<const TensorState*>> memory;
    const auto& groups = state.optimizers().at(event.optimizer).groups;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      for (const OptimizerMember& member : groups[i]) {
        const TensorState* tensor = state.tensor(member.tensor);
        groups_of[member.tensor].insert(i);
        if (tensor == nullptr || ++times[member.tensor] > 1) continue;
        if (tensor->info.storage == 0 || tensor->info.elements == 0) continue;
        memory[{tensor->info.storage, tensor->info.storage_offset_bytes}].push_back(tensor);
      }
    }
    Repetitions listed, over_groups;
    for (const auto& [id, count] : times) {
      if (count < 2) continue;
      (groups_of[id].size() > 1 ? over_groups : listed).add(*state.tensor(id), count, {});
    }
    Repetitions overlapping;
    for (const auto& [place, tensors] : memory) {
      const auto count = static_cast<std::int64_t>(tensors.size());
      if (count > 1) overlapping.add(*tensors.back(), count, tensors);
    }
    say(listed, {"optimizer", "impl", Severity::kError}, state, findings);
    say(over_groups, {"optimizer", "impl", Severity::kError, /*over_groups=*/true}, state,
        findings);
    say(overlapping, {"optimizer", "storage", Severity::kWarning}, state, findings);
  }

  void on_tree(const TreeEvent& event, const RunState&, Findings&) override {
    unjudged_models_.insert(event.model);
  }

  void on_cycle_end(const CycleEndEvent&, const RunState& state, Findings& findings) override {
    if (unjudged_models_.empty() || !state.optimizers_known()) return;
    Repetitions in_tree;
    for (const auto& [id, tensor] : state.tensors().all()) {
      // An optimizer that holds it was judged by its own list, and may name it once on purpose.
      if (tensor.registrations.size() < 2 || !tensor.owners.empty()) continue;
      const Registration& first = tensor.registrations.front();
      const Registration& last = tensor.registrations.back();
      if (first.model != last.model || !unjudged_models_.contains(first.model)) continue;
      if (!state.eligible(tensor)) continue;
      in_tree.add(tensor, static_cast<std::int64_t>(tensor.registrations.size()), {});
    }
    unjudged_models_.clear();
    say(in_tree, {"tree", "impl", Severity::kNote}, state, findings);
  }

 private:
  static void say(const Repetitions& repetitions, const RepetitionKind& kind, const RunState& state,
                  Findings& findings) {
    for (const auto& [key, repeated] : repetitions.by_module()) {
      findings.push_back(repeated_finding(repeated, kind, state));
    }
  }

  std::set<OptimizerId> unjudged_;
  std::set<ModelId> unjudged_models_;
};
}  // namespace

std::unique_ptr<Check> make_module_shared_twice() { return std::make_unique<ModuleSharedTwice>(); }

}  // namespace ddpscope
