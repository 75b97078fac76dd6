#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/repetitions.h"
#include "checks/run_state.h"
#include "checks/subtree.h"
#include "model/fact_keys.h"

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
    std::map<std::pair<std::uint64_t, std::int64_t>, std::vector<const TensorState*>> memory;
    for (const auto& group : state.optimizers().at(event.optimizer).groups) {
      for (const OptimizerMember& member : group) {
        const TensorState* tensor = state.tensor(member.tensor);
        if (tensor == nullptr || ++times[member.tensor] > 1) continue;
        if (tensor->info.storage == 0 || tensor->info.elements == 0) continue;
        memory[{tensor->info.storage, tensor->info.storage_offset_bytes}].push_back(tensor);
      }
    }
    Repetitions listed;
    for (const auto& [id, count] : times) {
      if (count > 1) listed.add(*state.tensor(id), count, {});
    }
    Repetitions overlapping;
    for (const auto& [place, tensors] : memory) {
      const auto count = static_cast<std::int64_t>(tensors.size());
      if (count > 1) overlapping.add(*tensors.back(), count, tensors);
    }
    say(listed, {"optimizer", "impl", Severity::kError}, state, findings);
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
  struct Kind {
    std::string where;
    std::string shares;
    Severity severity;
  };

  static void say(const Repetitions& repetitions, const Kind& kind, const RunState& state,
                  Findings& findings) {
    for (const auto& [key, repeated] : repetitions.by_module()) {
      findings.push_back(describe(repeated, kind, state));
    }
  }

  static Finding describe(const Repeated& repeated, const Kind& kind, const RunState& state) {
    Finding finding;
    const auto model = state.models().find(repeated.place.model);
    if (model != state.models().end()) finding.model = model->second.label;
    finding.severity = kind.severity;
    finding.phase = kind.where == "tree" ? Phase::kInit : Phase::kOptimizer;
    finding.module_path = repeated.place.module_path;
    const bool single = repeated.names.size() == 1;
    if (single) finding.subject = repeated.place.name;
    std::vector<std::string> others;
    for (const std::string& path : repeated.paths) {
      const std::string own = path_in(repeated.place.module_path, "");
      const bool below = !own.empty() && path.starts_with(own + ".");
      if (!below && path != path_in(own, repeated.place.name)) others.push_back(path);
    }
    const std::string which =
        single ? "this tensor"
               : counted(static_cast<std::int64_t>(repeated.names.size()), "tensor");
    const std::string also = others.empty() ? "" : ", also as " + joined(others);
    const std::string often =
        repeated.times == 2 ? "twice" : fmt::format("{} times", repeated.times);
    finding.what = sentence(kind, which + " " + often + also,
                            (single ? "it is updated " : "they are updated ") + often);
    finding.why =
        "parameters() does not remove repetitions: whatever walks the list counts and "
        "updates such a tensor once per entry";
    finding.fixes = {
        {"pass every tensor once: skip what the list already holds", Applicability::kSafe},
        {"register the module once and keep the second use as a plain member",
         Applicability::kNeedsDecision},
        {"shared by accident: construct one module for each name", Applicability::kNeedsDecision}};
    finding.facts = {{fact::kPaths, as_fact(std::vector<std::string>(repeated.paths.begin(),
                                                                     repeated.paths.end()))},
                     {fact::kTimesListedCount, repeated.times},
                     {fact::kWhere, kind.where},
                     {fact::kShares, kind.shares}};
    return finding;
  }

  static std::string sentence(const Kind& kind, std::string_view listed, std::string_view updated) {
    if (kind.where == "tree") return fmt::format("the tree lists {}", listed);
    if (kind.shares == "impl") {
      return fmt::format("the optimizer holds {}; {} per step", listed, updated);
    }
    return fmt::format("the optimizer holds the memory of {}", listed);
  }

  std::set<OptimizerId> unjudged_;
  std::set<ModelId> unjudged_models_;
};
}  // namespace

std::unique_ptr<Check> make_module_shared_twice() { return std::make_unique<ModuleSharedTwice>(); }

}  // namespace ddpscope
