#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "checks/check.h"
#include "checks/cleared_gradients.h"
#include "checks/gradient_presence.h"
#include "checks/missing_cause.h"
#include "checks/missing_text.h"
#include "checks/reducer_passes.h"
#include "checks/run_state.h"
#include "checks/sibling_branches.h"
#include "checks/subtree.h"

namespace ddpscope {
namespace {
/// grad-missing; docs/checks/grad-missing.md
class GradMissing final : public Check {
 public:
  void on_cycle_end(const CycleEndEvent& event, const RunState& state,
                    Findings& findings) override {
    std::vector<const TensorState*> absent;
    forget_dead(presences_, state);
    held_.clear();
    for (const TensorId id : state.tensors().registered()) {
      const TensorState& tensor = *state.tensor(id);
      GradientPresence& presence = presences_[id];
      const bool arrived = tensor.gradient_cycle == event.at.cycle;
      if (arrived || !expects_gradient(state, tensor)) {
        arrived ? presence.arrived(event.at.cycle, event.at.step) : presence.forget_gap();
        reported_.erase(id);
        continue;
      }
      if (!was_trained(state, tensor, event.at.cycle)) continue;
      presence.stayed_away();
      if (!presence.is_missed() || reported_.contains(id)) continue;
      if (tensor.owners.empty() && !state.optimizers_known()) continue;
      absent.push_back(&tensor);
    }
    if (!absent.empty()) tell_absent(absent, state, findings);
  }

  void on_reducer(const ReducerEvent& event, const RunState& state, Findings& findings) override {
    tell_awaited(passes_.on(event), state, findings);
  }

  void on_optimizer_step(const OptimizerStepEvent& event, const RunState& state,
                         Findings& findings) override {
    tell_awaited(passes_.on(event, state), state, findings);
    const ClearedGradients::Cleared cleared = cleared_.on(event, state);
    for (const TensorGroup& group : collapse(state, cleared.foreign)) {
      findings.push_back(foreign_finding(group, ClearedGradients::kForeignSteps, state));
    }
    for (const TensorGroup& group : collapse(state, cleared.all)) {
      findings.push_back(
          missing_finding(group, {.name = kClearedBeforeStep}, kMissingCycles, state));
      findings.back().phase = Phase::kOptimizer;
    }
  }

  void on_exit(const ExitEvent&, const RunState& state, Findings& findings) override {
    has_ended_ = true;
    std::vector<const TensorState*> held;
    for (const TensorId id : held_) held.push_back(state.tensor(id));
    std::erase(held, nullptr);
    if (!held.empty()) tell_absent(held, state, findings);
  }

  void on_dropped(const DroppedEvent&, const RunState&) override {
    held_.clear();
    for (auto& [id, presence] : presences_) presence.forget_gap();
    passes_.clear();
    cleared_.clear();
  }

 private:
  void tell_absent(const std::vector<const TensorState*>& absent, const RunState& state,
                   Findings& findings) {
    std::optional<SiblingBranches> siblings;
    std::map<std::int64_t, MissingTensors> missing;
    for (const TensorState* tensor : absent) {
      const GradientPresence& presence = presences_[tensor->info.id];
      const std::int64_t cycles = presence.cycles_without();
      MissingCause cause = missing_cause_of(state, *tensor, cycles);
      // Of tasks in turn, whose gradients the program assigns, its own may come later.
      if (cause.name == "not_accumulated" && presence.was_excused()) cause = {.was_reached = true};
      if (is_copy(state, *tensor, cause.name)) continue;
      if (cause.name == "not_used") {
        if (!siblings.has_value()) siblings.emplace(presences_, state);
        const Branch branch = siblings->kind_of(*tensor, presence, state);
        if (branch == Branch::kMayCome || (branch == Branch::kHead && !has_ended_)) {
          if (branch == Branch::kHead) held_.push_back(tensor->info.id);
          continue;
        }
      }
      reported_.insert(tensor->info.id);
      cause.last_step = presence.last_step();
      cause.was_always_there = presence.was_always_there();
      missing[cycles].add(*tensor, cause);
    }
    for (const auto& [cycles, tensors] : missing) {
      for (const auto& [cause, group] : tensors.found(state)) {
        findings.push_back(missing_finding(group, cause, cycles, state));
        add_cut(cause, state, findings.back());
      }
    }
  }

  /// A Reducer waits for all of its parameters: one without a gradient is missed at once.
  void tell_awaited(const ReducerPasses::Passes& passes, const RunState& state,
                    Findings& findings) {
    for (const ReducerEvent& pass : passes) {
      MissingTensors missing;
      for (const TensorId id : pass.not_ready) {
        const TensorState* tensor = state.tensor(id);
        if (tensor == nullptr) continue;
        missing.add(*tensor, awaited_cause_of(state, *tensor));
        reported_.insert(id);
      }
      for (const auto& [cause, group] : missing.found(state)) {
        findings.push_back(awaited_finding(pass, group, cause));
        add_cut(cause, state, findings.back());
      }
    }
  }

  /// Where this step has no records of operators, what an earlier one that lacked it told.
  const MissingCause& awaited_cause_of(const RunState& state, const TensorState& tensor) {
    MissingCause& known = awaited_[tensor.info.id];
    MissingCause found = missing_cause_of(state, tensor, /*cycles=*/1);
    if (!found.name.empty()) known = std::move(found);
    return known;
  }

  ReducerPasses passes_;
  ClearedGradients cleared_;
  std::unordered_map<TensorId, MissingCause> awaited_;
  std::unordered_map<TensorId, GradientPresence> presences_;
  std::unordered_set<TensorId> reported_;
  std::vector<TensorId> held_;  ///< in the last cycle
  bool has_ended_ = false;
};
}  // namespace

std::unique_ptr<Check> make_grad_missing() { return std::make_unique<GradMissing>(); }

}  // namespace ddpscope
