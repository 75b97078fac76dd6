#include <algorithm>
#include <map>
#include <memory>
#include <unordered_map>

#include "checks/check.h"
#include "checks/idle_text.h"
#include "checks/run_state.h"
#include "checks/subtree.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kZeroSteps = 3;

/// grad-zero-instead-of-none; docs/checks/grad-zero-instead-of-none.md
class GradZeroInsteadOfNone final : public Check {
 public:
  void on_gradient(const GradientEvent& event, const RunState&, Findings&) override {
    if (event.defined) members_[event.tensor].reached = true;
  }

  // Arrives before the step of the same optimizer.
  void on_zero_gradients(const ZeroGradientsEvent& event, const RunState& state,
                         Findings& findings) override {
    const auto known = state.optimizers().find(event.optimizer);
    if (known == state.optimizers().end()) return;
    const OptimizerState& optimizer = known->second;
    std::map<IdleKind, std::vector<const TensorState*>> idle;
    double ratio = 0;
    for (const ZeroGradient& zero : event.members) {
      const TensorState* tensor = state.tensor(zero.tensor);
      if (tensor == nullptr) continue;
      const bool is_frozen = !tensor->info.requires_grad;
      if (is_frozen && tensor->gradients == 0) continue;  // the program makes its gradients
      Member& member = members_[zero.tensor];
      const bool by_zero = member.reached && tensor->use.bytes_before_zero.has_value();
      if (member.reached && !by_zero) continue;  // a true zero: a dead activation, a masked row
      const GroupOptions options = options_of(zero.tensor, optimizer);
      // The momentum of the last use moves the parameter once more: that is no fault.
      const bool is_tail = options.weight_decay == 0 && member.reached_before;
      const bool has_cause = options.weight_decay != 0 || (options.momentum != 0 && !is_tail);
      if (has_cause && zero.update_ratio > 0) ++member.moved;
      if (by_zero) ++member.by_zero;
      ratio = std::max(ratio, zero.update_ratio);
      const bool is_moved = member.moved == kZeroSteps;
      if (is_moved || (member.by_zero == kZeroSteps && member.moved == 0)) {
        idle[{by_zero, is_moved, is_frozen, options.weight_decay, options.momentum}].push_back(
            tensor);
      }
    }
    for (const auto& [kind, tensors] : idle) {
      for (const TensorGroup& group : collapse(state, tensors)) {
        findings.push_back(idle_finding(group, kind, kZeroSteps, ratio, optimizer));
      }
    }
  }

  void on_optimizer_step(const OptimizerStepEvent& event, const RunState& state,
                         Findings&) override {
    for (const auto& group : state.optimizers().at(event.optimizer).groups) {
      for (const OptimizerMember& member : group) {
        const auto found = members_.find(member.tensor);
        if (found == members_.end()) continue;
        found->second.reached_before = std::exchange(found->second.reached, false);
      }
    }
  }

  void on_dropped(const DroppedEvent&, const RunState&) override { members_.clear(); }

 private:
  struct Member {
    bool reached = false;         ///< by a backward since the last step
    bool reached_before = false;  ///< in the interval before
    std::int64_t moved = 0;
    std::int64_t by_zero = 0;
  };

  static GroupOptions options_of(TensorId tensor, const OptimizerState& optimizer) {
    for (std::size_t i = 0; i < std::min(optimizer.groups.size(), optimizer.options.size()); ++i) {
      const auto& group = optimizer.groups[i];
      const bool holds = std::ranges::find(group, tensor, &OptimizerMember::tensor) != group.end();
      if (holds) return optimizer.options[i];
    }
    return {};
  }

  std::unordered_map<TensorId, Member> members_;
};
}  // namespace

std::unique_ptr<Check> make_grad_zero_instead_of_none() {
  return std::make_unique<GradZeroInsteadOfNone>();
}

}  // namespace ddpscope
