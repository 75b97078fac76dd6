#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "checks/check.h"
#include "checks/evaluations_in_training.h"
#include "checks/finding_text.h"
#include "checks/frozen_norm_steps.h"
#include "checks/mode_text.h"
#include "checks/module_modes.h"
#include "checks/ops_in_eval.h"
#include "checks/run_state.h"
#include "checks/training_differs.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kEvalSteps = 10;

/// module-mode; docs/checks/module-mode.md
class ModuleMode final : public Check {
 public:
  void on_tree(const TreeEvent& event, const RunState& state, Findings&) override {
    modes_.update(event, state.models());
    models_of_.clear();
  }
  void on_optimizer_members(const OptimizerMembersEvent& event, const RunState&,
                            Findings&) override {
    models_of_.erase(event.optimizer);
  }

  void on_training_op(const TrainingOpEvent& event, const RunState& state,
                      Findings& findings) override {
    if (event.grad_mode || !event.in_eval) norms_.ran(event, state);
    in_eval_.ran(event, state, findings);
  }

  // What the tree says now was so when the step before this one ended.
  void on_optimizer_step(const OptimizerStepEvent& event, const RunState& state,
                         Findings& findings) override {
    for (const ModelId model : std::exchange(stepped_, {})) count_root(model, state, findings);
    count_norms(state, findings);
    evaluations_.tell(event.at.step, state, findings);
    for (const ModelId model : models_of(event.optimizer, state)) {
      if (state.gradient_reached(model)) stepped_.insert(model);
    }
  }

  void on_judged_output(const JudgedOutputEvent& event, const RunState& state,
                        Findings& findings) override {
    in_eval_.judged(event, state, findings);
    evaluations_.judged(event, state);
    evaluations_.tell(event.at.step, state, findings);
  }

  void on_exit(const ExitEvent&, const RunState& state, Findings& findings) override {
    evaluations_.tell_at_exit(state, findings);
  }

  void on_ranks_compared(const RanksComparedEvent& run, Findings& findings) override {
    for (const Cohort& cohort : run.cohorts) find_other_modes(cohort, findings);
  }

  void on_dropped(const DroppedEvent&, const RunState&) override {
    norms_.clear();
    in_eval_.clear();
    evaluations_.clear();
    for (auto& [model, root] : roots_) root.eval_steps = 0;
  }

 private:
  struct Root {
    bool trained = false;
    std::int64_t eval_steps = 0;
  };

  void count_root(ModelId model, const RunState& state, Findings& findings) {
    const ModuleModes::Mode* mode = modes_.find({model, ""});
    if (mode == nullptr || !state.models().contains(model)) return;
    evaluations_.trains(model);
    Root& root = roots_[model];
    if (mode->training) {
      root = {.trained = true};
    } else if (++root.eval_steps == kEvalSteps && !state.declared(model, "", "intended")) {
      findings.push_back(eval_while_training(state.models().at(model), root.trained, kEvalSteps));
    }
  }

  void count_norms(const RunState& state, Findings& findings) {
    for (auto& [model, norms] : norms_.stepped(modes_, state)) {
      norms.is_all = !modes_.any_trains(model);
      if (state.models().contains(model)) {
        findings.push_back(
            frozen_norm_updates(state.models().at(model), norms, FrozenNormSteps::kNormSteps));
      }
    }
  }

  const std::set<ModelId>& models_of(OptimizerId id, const RunState& state) {
    const auto [models, is_new] = models_of_.try_emplace(id);
    if (!is_new) return models->second;
    for (const auto& group : state.optimizers().at(id).groups) {
      for (const OptimizerMember& member : group) {
        const TensorState* tensor = state.tensor(member.tensor);
        if (tensor == nullptr) continue;
        for (const Registration& at : tensor->registrations) models->second.insert(at.model);
      }
    }
    return models->second;
  }

  ModuleModes modes_;
  std::map<OptimizerId, std::set<ModelId>> models_of_;
  std::set<ModelId> stepped_;
  std::map<ModelId, Root> roots_;
  FrozenNormSteps norms_;
  EvaluationsInTraining evaluations_;
  OpsInEval in_eval_;
};
}  // namespace

std::unique_ptr<Check> make_module_mode() { return std::make_unique<ModuleMode>(); }

}  // namespace ddpscope
