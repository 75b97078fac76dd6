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
#include "checks/twins.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kForeignCycles = 3;

std::vector<std::string> former_paths(const std::vector<const TensorState*>& tensors) {
  std::vector<std::string> paths;
  for (const TensorState* tensor : tensors) {
    if (!tensor->former_path.empty()) paths.push_back(tensor->former_path);
  }
  return paths;
}

/// optim-foreign-parameter; docs/checks/optim-foreign-parameter.md
class OptimForeignParameter final : public Check {
 public:
  void on_optimizer_step(const OptimizerStepEvent& event, const RunState&, Findings&) override {
    stepped_.insert(event.optimizer);
  }

  void on_cycle_end(const CycleEndEvent& event, const RunState& state,
                    Findings& findings) override {
    // Only optimizers that stepped: one that was built anew leaves the old one behind.
    const std::set<OptimizerId> stepped = std::exchange(stepped_, {});
    if (state.models().empty()) return;
    for (const OptimizerId id : stepped) judge(state.optimizers().at(id), event, state, findings);
  }

  void on_dropped(const DroppedEvent&, const RunState&) override { cycles_.clear(); }

 private:
  struct Foreign {
    std::vector<const TensorState*> tensors;
    std::vector<const TensorState*> twins;
  };

  void judge(const OptimizerState& optimizer, const CycleEndEvent& event, const RunState& state,
             Findings& findings) {
    std::vector<const TensorState*> foreign;
    std::set<const TensorState*> given;  // a gradient, by the program and no backward
    for (const auto& group : optimizer.groups) {
      for (const OptimizerMember& member : group) {
        const TensorState* tensor = state.tensor(member.tensor);
        if (tensor == nullptr || !is_foreign(*tensor, member, event.at.cycle)) {
          cycles_.erase(member.tensor);
        } else if (++cycles_[member.tensor] == kForeignCycles) {
          foreign.push_back(tensor);
          if (member.grad_defined) given.insert(tensor);
        }
      }
    }
    if (foreign.empty()) return;
    Twins twins(state);
    std::map<const TensorState*, const TensorState*> twin_of;
    for (const TensorState* tensor : foreign) twin_of[tensor] = twins.take(*tensor);
    const auto with_twin = std::ranges::count_if(given, [&](auto one) { return twin_of[one]; });
    const bool is_like_model = 2 * with_twin > std::ssize(given);  // not by a chance of shapes
    std::map<std::string, Foreign> by_cause;
    for (const TensorState* tensor : foreign) {
      const TensorState* twin = twin_of[tensor];
      const bool is_taken = is_like_model && twin != nullptr && !twin->is_written();
      // The program gives it a gradient, and writes it back where the model has a tensor like it.
      if (given.contains(tensor) && !is_taken) continue;
      if (twin == nullptr && takes_turns(*tensor, optimizer, state)) continue;
      Foreign& of_cause = by_cause[twin != nullptr ? "stale_copy" : "unknown_tensor"];
      of_cause.tensors.push_back(tensor);
      if (twin != nullptr) of_cause.twins.push_back(twin);
    }
    for (const auto& [cause, of_cause] : by_cause) {
      findings.push_back(describe(optimizer, cause, of_cause, state));
    }
  }

  static bool is_foreign(const TensorState& tensor, const OptimizerMember& member,
                         std::int64_t cycle) {
    const bool reached = tensor.gradient_cycle == cycle || tensor.undefined_cycle == cycle;
    return member.requires_grad && tensor.registrations.empty() && !tensor.left_with_root &&
           !reached;
  }

  static Finding describe(const OptimizerState& optimizer, const std::string& cause,
                          const Foreign& foreign, const RunState& state) {
    const auto count = static_cast<std::int64_t>(foreign.tensors.size());
    const std::int64_t elements = elements_of(foreign.tensors);
    const bool had_gradients = std::ranges::any_of(
        foreign.tensors, [](const TensorState* tensor) { return tensor->gradients > 0; });
    Finding finding;
    finding.phase = Phase::kOptimizer;
    finding.subject = optimizer_label(optimizer);
    const ModelState* model = state.first_model();
    if (!foreign.twins.empty()) model = state.model_of(*foreign.twins.front());
    finding.model = model->label;
    const bool is_stale = cause == "stale_copy";
    const std::vector<std::string> paths =
        is_stale ? paths_of({.tensors = foreign.twins}) : former_paths(foreign.tensors);
    const std::string members =
        fmt::format("{} ({}) {}", counted(count, "member"), counted(elements, "element"),
                    count == 1 ? "is" : "are");
    finding.severity = is_stale        ? Severity::kError
                       : had_gradients ? Severity::kNote
                                       : Severity::kWarning;
    if (is_stale) {
      finding.what = members +
                     " stale; the model has other tensors of the same shapes in no "
                     "optimizer: " +
                     joined(paths) + " (stale_copy)";
      finding.why = "no model registers them and no backward reaches them in 3 cycles";
    } else {
      finding.what = members + " in no attached model and without gradients (unknown_tensor)";
      finding.why = "largest " + joined(largest_shapes(foreign.tensors));
      if (!paths.empty()) finding.why += "; once registered as " + joined(paths);
    }
    finding.fixes = fixes();
    finding.facts = {{fact::kCause, cause},
                     {fact::kMembersCount, count},
                     {fact::kElements, elements},
                     {fact::kTwinPaths, as_fact(paths)}};
    return finding;
  }

  static std::vector<Fix> fixes() {
    return {
        {"build the optimizer again after the last change of the model", Applicability::kLikely},
        {"replace the members in its groups and move their state", Applicability::kNeedsDecision}};
  }

  std::set<OptimizerId> stepped_;
  std::unordered_map<TensorId, std::int64_t> cycles_;
};
}  // namespace

std::unique_ptr<Check> make_optim_foreign_parameter() {
  return std::make_unique<OptimForeignParameter>();
}

}  // namespace ddpscope
