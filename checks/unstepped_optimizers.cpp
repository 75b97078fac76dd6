#include "checks/unstepped_optimizers.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "checks/finding_text.h"
#include "checks/lapsed_owners.h"
#include "checks/subtree.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kClearedUnused = 16;
constexpr std::int64_t kBackwardsAtExit = 8;

/// The members that have gradients and that the program does not write by itself either.
std::vector<const TensorState*> unmoved(const OptimizerState& optimizer, const RunState& state) {
  std::vector<const TensorState*> members;
  for (const auto& group : optimizer.groups) {
    for (const OptimizerMember& member : group) {
      const TensorState* tensor = state.tensor(member.tensor);
      if (tensor == nullptr || tensor->gradients == 0) continue;
      if (!tensor->written_by.empty() || tensor->is_copied || tensor->was_written) return {};
      members.push_back(tensor);
    }
  }
  return members;
}

Finding describe(const OptimizerState& optimizer, const std::vector<const TensorState*>& members,
                 const RunState& state) {
  using enum Applicability;
  Finding finding = about(collapse(state, members).front());
  finding.step = 1;  // as none ended
  finding.severity = Severity::kWarning;
  finding.phase = Phase::kOptimizer;
  finding.why = fmt::format("{} holds {}, and neither it nor another optimizer has stepped",
                            optimizer_label(optimizer),
                            counted(std::ssize(members), "parameter") + " with gradients");
  finding.fixes = {{"call step() behind backward()", kLikely},
                   {"gradients that are only looked at: clear them by the module's zero_grad()",
                    kNeedsDecision}};
  finding.facts.push_back({fact::kCause, std::string("never_stepped")});
  return finding;
}
}  // namespace

void UnsteppedOptimizers::on(const BackwardEvent& event) {
  if (!event.accumulates) return;
  if (backwards_++ == 0) return;
  left_ += event.last == GradientFate::kLeft;
  is_excused_ |= event.last == GradientFate::kTaken;
}

void UnsteppedOptimizers::on(const CollectiveEvent& event, const RunState& state) {
  if (!brings_tensors(event.kind) || event.is_root || backwards_ == 0) return;
  is_excused_ |= std::ranges::any_of(event.tensors, [&state](TensorId id) {
    const TensorState* tensor = state.tensor(id);
    return tensor != nullptr && !tensor->is_buffer && tensor->gradients > 0;
  });
}

/// It was seen what the program does with its gradients: nothing.
bool UnsteppedOptimizers::may_tell(const RunState& state) const {
  // A line search may be within its first step, and one of the program's own class step unseen.
  const auto may_step = [](const auto& one) {
    const OptimizerState& optimizer = one.second;
    return !optimizer.never_stepped() || optimizer.type.empty() || optimizer.type == "LBFGS";
  };
  return !is_told_ && !is_excused_ && left_ > 0 && !state.several_threads_train() &&
         std::ranges::none_of(state.optimizers(), may_step);
}

std::optional<Finding> UnsteppedOptimizers::on(const ZeroGradEvent& event, const RunState& state) {
  const auto found = state.optimizers().find(event.optimizer);
  if (found == state.optimizers().end()) return std::nullopt;
  Cleared& cleared = cleared_[event.optimizer];
  if (std::exchange(cleared.after, backwards_) == backwards_) return std::nullopt;
  if (++cleared.times != kClearedUnused + 1) return std::nullopt;  // the first may come before any
  const auto members = unmoved(found->second, state);
  if (members.empty() || !may_tell(state)) return std::nullopt;
  is_told_ = true;
  Finding finding = describe(found->second, members, state);
  finding.what = fmt::format(
      "the gradients of {} backwards were cleared, and no step() used them (never_stepped)",
      kClearedUnused);
  return finding;
}

void UnsteppedOptimizers::at_exit(const RunState& state, Findings& findings) {
  if (backwards_ < kBackwardsAtExit || !may_tell(state)) return;
  for (const auto& [id, optimizer] : state.optimizers()) {
    if (!optimizer.creation_seen) continue;
    if (!is_built_beside_models(state, optimizer)) continue;
    const auto members = unmoved(optimizer, state);
    if (members.empty()) continue;
    findings.push_back(describe(optimizer, members, state));
    findings.back().what = fmt::format(
        "{} backwards left gradients, and no step() used them (never_stepped)", backwards_);
    is_told_ = true;
  }
}

}  // namespace ddpscope
