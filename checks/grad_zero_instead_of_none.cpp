#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <unordered_map>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/run_state.h"
#include "checks/subtree.h"
#include "model/fact_keys.h"

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
    std::map<Kind, std::vector<const TensorState*>> idle;
    double ratio = 0;
    for (const ZeroGradient& zero : event.members) {
      const TensorState* tensor = state.tensor(zero.tensor);
      if (tensor == nullptr || !tensor->info.requires_grad) continue;
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
        idle[{by_zero, is_moved, options.weight_decay, options.momentum}].push_back(tensor);
      }
    }
    for (const auto& [kind, tensors] : idle) {
      for (const TensorGroup& group : collapse(state, tensors)) {
        findings.push_back(describe(group, kind, ratio, optimizer));
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
  struct Kind {
    bool by_zero = false;
    bool moved = false;
    double weight_decay = 0;
    double momentum = 0;
    auto operator<=>(const Kind&) const = default;
  };

  static GroupOptions options_of(TensorId tensor, const OptimizerState& optimizer) {
    for (std::size_t i = 0; i < std::min(optimizer.groups.size(), optimizer.options.size()); ++i) {
      const auto& group = optimizer.groups[i];
      const bool holds = std::ranges::find(group, tensor, &OptimizerMember::tensor) != group.end();
      if (holds) return optimizer.options[i];
    }
    return {};
  }

  static std::string why(const Kind& kind, std::int64_t bytes, const std::string& optimizer) {
    const std::string device = fmt::format(
        "the loss reaches them through a multiplication by zero only; backward keeps {} B for it, "
        "and an Inf there becomes NaN in the loss",
        bytes);
    std::string decay = fmt::format(
        "{} applies weight decay {:g} and momentum {:g} to gradients that are defined "
        "and zero",
        optimizer, kind.weight_decay, kind.momentum);
    if (!kind.by_zero) return decay;
    return kind.moved ? device + "; " + decay : device;
  }

  static Finding describe(const TensorGroup& group, const Kind& kind, double ratio,
                          const OptimizerState& optimizer) {
    using enum Applicability;
    const std::string cause = kind.by_zero ? "times_zero" : "zero_filled";
    Finding finding = about(group);
    finding.severity = kind.moved ? Severity::kWarning : Severity::kNote;
    finding.phase = Phase::kOptimizer;
    std::int64_t bytes = 0;
    for (const TensorState* tensor : group.tensors) {
      bytes = std::max(bytes, tensor->use.bytes_before_zero.value_or(0));
    }
    finding.what =
        fmt::format("{} {} in {} steps{} ({})",
                    counted(static_cast<std::int64_t>(group.tensors.size()), "parameter"),
                    kind.moved ? fmt::format("moved by up to {:.2g} (relative) per step", ratio)
                               : "had a gradient of exactly 0",
                    kZeroSteps, kind.moved ? " in which their gradient was exactly 0" : "", cause);
    finding.why = why(kind, bytes, optimizer_label(optimizer));
    finding.fixes = {
        {"zero_grad() to undefined, not to zero", kLikely},
        {"undefine the gradients of heads that did not run, after the reduction", kLikely},
        {"an optimizer group of their own without decay", kNeedsDecision}};
    if (kind.by_zero) finding.fixes.front() = {"leave the head out of the loss", kLikely};
    finding.facts.push_back({fact::kCause, cause});
    finding.facts.push_back({fact::kWeightDecay, kind.weight_decay});
    finding.facts.push_back({fact::kMomentum, kind.momentum});
    finding.facts.push_back({fact::kUpdateRatio, ratio});
    if (kind.by_zero) finding.facts.push_back({fact::kSavedBytes, bytes});
    return finding;
  }

  std::unordered_map<TensorId, Member> members_;
};
}  // namespace

std::unique_ptr<Check> make_grad_zero_instead_of_none() {
  return std::make_unique<GradZeroInsteadOfNone>();
}

}  // namespace ddpscope
