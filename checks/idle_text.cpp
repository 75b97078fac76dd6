#include "checks/idle_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "checks/finding_text.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
std::string idle_why(const IdleKind& kind, std::int64_t bytes, const std::string& optimizer) {
  const std::string device = fmt::format(
      "the loss reaches them through a multiplication by zero only; backward keeps {} B for it, "
      "and an Inf there becomes NaN in the loss",
      bytes);
  std::string decay = fmt::format(
      "{} applies weight decay {:g} and momentum {:g} to gradients that are defined "
      "and zero",
      optimizer, kind.weight_decay, kind.momentum);
  if (kind.frozen) return "freezing them left their gradients defined: " + decay;
  if (!kind.by_zero) return decay;
  return kind.moved ? device + "; " + decay : device;
}
}  // namespace

Finding idle_finding(const TensorGroup& group, const IdleKind& kind, std::int64_t steps,
                     double ratio, const OptimizerState& optimizer) {
  using enum Applicability;
  const std::string cause = kind.by_zero ? "times_zero" : "zero_filled";
  Finding finding = about(group);
  finding.severity = kind.moved ? Severity::kWarning : Severity::kNote;
  finding.phase = Phase::kOptimizer;
  std::int64_t bytes = 0;
  for (const TensorState* tensor : group.tensors) {
    bytes = std::max(bytes, tensor->use.bytes_before_zero.value_or(0));
  }
  finding.what = fmt::format(
      "{} {} in {} steps{} ({})",
      counted(std::ssize(group.tensors), kind.frozen ? "frozen parameter" : "parameter"),
      kind.moved ? fmt::format("moved by up to {:.2g} (relative) per step", ratio)
                 : "had a gradient of exactly 0",
      steps, kind.moved ? " in which their gradient was exactly 0" : "", cause);
  finding.why = idle_why(kind, bytes, optimizer_label(optimizer));
  finding.fixes = {
      {"zero_grad() to undefined, not to zero", kLikely},
      {"undefine the gradients of heads that did not run, after the reduction", kLikely},
      {"an optimizer group of their own without decay", kNeedsDecision}};
  if (kind.by_zero) finding.fixes.front() = {"leave the head out of the loss", kLikely};
  if (kind.frozen) {
    finding.fixes[1] = {"p.mutable_grad() = torch::Tensor() where they are frozen", kLikely};
    finding.fixes[2].text = "an optimizer of what is trained alone";
  }
  finding.facts.push_back({fact::kCause, cause});
  finding.facts.push_back({fact::kWeightDecay, kind.weight_decay});
  finding.facts.push_back({fact::kMomentum, kind.momentum});
  finding.facts.push_back({fact::kUpdateRatio, ratio});
  if (kind.by_zero) finding.facts.push_back({fact::kSavedBytes, bytes});
  return finding;
}

}  // namespace ddpscope
