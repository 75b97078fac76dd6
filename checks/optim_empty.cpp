#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/run_state.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
struct Reached {
  std::int64_t tensors = 0;
  std::int64_t registered = 0;
  std::int64_t elements = 0;
  std::set<ModelId> models = {};
};

Reached reached_now(const RunState& state) {
  Reached reached;
  for (const auto& [id, tensor] : state.tensors().all()) {
    if (tensor.reached_step != state.now().step) continue;
    ++reached.tensors;
    if (!tensor.registrations.empty()) {
      ++reached.registered;
      reached.models.insert(tensor.registrations.front().model);
    }
    reached.elements += tensor.info.elements;
  }
  return reached;
}

bool trains(const RunState& state, const OptimizerMember& member) {
  const TensorState* tensor = state.tensor(member.tensor);
  return member.requires_grad || member.grad_defined ||
         (tensor != nullptr && tensor->gradients > 0);
}

/// optim-empty; docs/checks/optim-empty.md
class OptimEmpty final : public Check {
 public:
  void on_optimizer_step(const OptimizerStepEvent& event, const RunState& state,
                         Findings& findings) override {
    const OptimizerState& optimizer = state.optimizers().at(event.optimizer);
    if (optimizer.steps != 1 || !optimizer.members_known) return;
    std::int64_t members = 0;
    std::int64_t trainable = 0;
    std::int64_t empty_groups = 0;
    for (const auto& group : optimizer.groups) {
      members += static_cast<std::int64_t>(group.size());
      trainable += std::ranges::count_if(
          group, [&](const OptimizerMember& member) { return trains(state, member); });
      if (group.empty()) ++empty_groups;
    }
    if (trainable > 0 && empty_groups == 0) return;

    Finding finding;
    if (const ModelState* model = state.model_of(optimizer)) finding.model = model->label;
    finding.phase = Phase::kOptimizer;
    finding.subject = optimizer_label(optimizer);
    finding.facts = {{fact::kOptimizer, optimizer_label(optimizer)},
                     {fact::kMembersCount, members},
                     {fact::kTrainableCount, trainable}};
    if (trainable > 0) {
      describe_group(finding, empty_groups, static_cast<std::int64_t>(optimizer.groups.size()));
    } else {
      describe_empty(finding, members, reached_now(state));
    }
    findings.push_back(std::move(finding));
  }

 private:
  static std::vector<Fix> fixes_for_none(const Reached& reached) {
    if (reached.tensors > 0 && reached.registered == reached.tensors) {
      std::vector<Fix> fixes = {
          {"build the optimizer with model->parameters() itself: the list that it was given may "
           "have been filtered while all were frozen, or moved from",
           Applicability::kLikely},
          {"if these are members of a class of the program: register_module(name, member) in its "
           "constructor, else its parameters() are none",
           Applicability::kLikely}};
      if (reached.models.size() > 1) std::swap(fixes[0], fixes[1]);
      return fixes;
    }
    return {{"register the layers (module-unregistered)", Applicability::kLikely},
            {"build the optimizer after registration", Applicability::kLikely}};
  }

  static void describe_group(Finding& finding, std::int64_t empty, std::int64_t groups) {
    finding.severity = Severity::kNote;
    finding.what = fmt::format("{} of {} are empty", empty, counted(groups, "parameter group"));
    finding.why = "the list of such a group held nothing when the optimizer was built";
    finding.fixes = {
        {"pass the group's parameters, or leave the group out", Applicability::kLikely}};
  }

  static void describe_empty(Finding& finding, std::int64_t members, const Reached& reached) {
    finding.severity = Severity::kError;
    const std::string seen =
        reached.tensors == 0
            ? "no backward came since the last step"
            : fmt::format("the loss reaches {} ({})", counted(reached.tensors, "trainable tensor"),
                          counted(reached.elements, "element"));
    finding.facts.push_back({fact::kReachedElements, reached.elements});
    if (members == 0) {
      finding.what = fmt::format("steps with 0 parameters; {}", seen);
      finding.why =
          "the parameter list was empty when the optimizer was built, and nothing was "
          "added before its first step";
      finding.fixes = fixes_for_none(reached);
      return;
    }
    finding.what = fmt::format("steps with 0 trainable parameters of {}; {}",
                               counted(members, "member"), seen);
    finding.why = "no member requires grad, and none ever had a gradient: the step changes nothing";
    finding.fixes = {{"pass the parameters that are to be trained", Applicability::kLikely},
                     {"call requires_grad_(true) on the members before the first forward",
                      Applicability::kNeedsDecision}};
  }
};
}  // namespace

std::unique_ptr<Check> make_optim_empty() { return std::make_unique<OptimEmpty>(); }

}  // namespace ddpscope
