#include "checks/stale_gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "checks/finding_text.h"
#include "checks/subtree.h"
#include "checks/target_text.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kStepsOfInnerLoop = 32;

bool share_an_optimizer(const TensorState& a, const TensorState& b) {
  return std::ranges::any_of(a.owners, [&b](OptimizerId owner) {
    return std::ranges::find(b.owners, owner) != b.owners.end();
  });
}

/// Whether others of the same model or optimizer are cleared; another model has its own loop.
bool is_cleared_in_part(const TensorState& stale, const std::vector<TensorId>& cleared,
                        const RunState& state) {
  const ModelState* model = state.model_of(stale);
  return std::ranges::any_of(cleared, [&](TensorId id) {
    const TensorState* other = state.tensor(id);
    return other != nullptr &&
           (state.model_of(*other) == model || share_an_optimizer(stale, *other));
  });
}

std::string why_stale(const StaleGradients& stale, bool others) {
  std::string why = fmt::format("{} since they were last cleared, {}, no reset in between{}",
                                counted(stale.accumulations, "accumulation"), stale.updates,
                                others               ? "; others were cleared before the step"
                                : stale.now_and_then ? ": one serves several steps"
                                                     : "");
  if (!stale.cleared_instead.empty()) {
    why += fmt::format("; zero_grad() of {} is called instead, which holds none of them",
                       stale.cleared_instead);
  }
  return why;
}

Finding about(const TensorGroup& group, const StaleGradients& stale, const RunState& state) {
  const bool others =
      !stale.now_and_then && is_cleared_in_part(*group.tensors.front(), stale.cleared, state);
  const std::string cause = stale.now_and_then ? "not_each_step"
                            : others           ? "outside_optimizer"
                                               : "never_zeroed";
  Finding finding = about(group);
  finding.severity = others || stale.now_and_then ? Severity::kWarning : Severity::kError;
  const auto count = static_cast<std::int64_t>(group.tensors.size());
  finding.what =
      fmt::format("gradients of earlier steps are still in {}{} ({}; {})",
                  stale.all && !others && count > 1 ? "all " : "", counted(count, "parameter"),
                  counted(elements_of(group.tensors), "element"), cause);
  finding.why = why_stale(stale, others);
  finding.fixes = {{stale.clearing + (stale.now_and_then ? " before the backward of each step"
                                                         : " before each first backward"),
                    Applicability::kLikely}};
  if (others) {
    finding.fixes.push_back(
        {"or clear these too: " + joined(paths_of(group)), Applicability::kLikely});
    finding.fixes.push_back({"several optimizers: zero_grad() of the model clears for all of them",
                             Applicability::kLikely});
  }
  finding.facts = {{fact::kCause, cause},
                   {fact::kParametersCount, count},
                   {fact::kParameters, as_fact(paths_of(group))},
                   {fact::kElements, elements_of(group.tensors)},
                   {fact::kAccumulationsCount, stale.accumulations}};
  if (stale.period > 0) finding.facts.push_back({fact::kPeriod, stale.period});
  if (!stale.optimizers.empty()) {
    finding.facts.push_back({fact::kOptimizers, as_fact(stale.optimizers)});
  }
  return finding;
}

/// Its label, and what it holds where another one is called the same: `Adam with D.fc.weight`.
std::string name_among(const OptimizerState& optimizer, const RunState& state) {
  const std::string label = optimizer_label(optimizer);
  const bool is_only = std::ranges::none_of(state.optimizers(), [&](const auto& entry) {
    return entry.first != optimizer.id && optimizer_label(entry.second) == label;
  });
  if (is_only || optimizer.groups.empty() || optimizer.groups.front().empty()) return label;
  const TensorState* first = state.tensor(optimizer.groups.front().front().tensor);
  if (first == nullptr) return label;
  const ModelState* model = state.model_of(*first);
  const bool is_named = model != nullptr && !first->registrations.empty();
  const std::string path = is_named ? model->label + "." : "";
  return fmt::format("{} with {}{}", label, path, tensor_path(*first));
}

std::string why_foreign(const ForeignGradients::Applied& applied, const std::string& own,
                        const std::string& other) {
  using enum ForeignGradients::Sign;
  const std::string both = fmt::format(
      "nothing cleared them before the next backward, and {} stepped with both, three times", own);
  switch (applied.sign) {
    case kAppliedTwice:
      return fmt::format("{} had applied them; {}", other, both);
    case kThrownAway:
      return fmt::format("{}; what that backward left for {} was cleared unused", both, other);
    case kPassedBy:
      break;
  }
  return fmt::format("{}; the loss before it reached {} through them", both, other);
}

std::vector<Fix> fixes_of_foreign(const ForeignGradients::Applied& applied, const std::string& own,
                                  const std::string& other) {
  using enum Applicability;
  using enum ForeignGradients::Sign;
  const bool may_be_meant = applied.sign == kPassedBy;
  std::vector<Fix> fixes = {
      {fmt::format("zero_grad() of {} after the step of {}{}", own, other,
                   may_be_meant ? ", unless both losses are to train it" : ""),
       may_be_meant ? kNeedsDecision : kLikely}};
  if (applied.sign == kThrownAway) {
    fixes.push_back(
        {fmt::format("or detach() what the loss of {} takes from them", other), kLikely});
  }
  return fixes;
}
}  // namespace

void say_stale(const StaleGradients& stale, const RunState& state, Findings& findings) {
  std::vector<const TensorState*> tensors;
  for (const TensorId id : stale.parameters) tensors.push_back(state.tensor(id));
  std::erase(tensors, nullptr);
  for (const TensorGroup& group : collapse(state, tensors)) {
    findings.push_back(about(group, stale, state));
  }
}

void say_stale(OwnUpdates::Closed closed, const RunState& state, Findings& findings) {
  if (!closed.stale.empty()) drop_targets(closed.stale, state);
  if (closed.stale.empty()) return;
  say_stale(
      StaleGradients{.parameters = std::move(closed.stale),
                     .all = closed.all,
                     .accumulations = closed.accumulations,
                     .updates = counted(closed.updates, "update") + " by the program's own code",
                     .clearing = "zero_grad() of the model",
                     .cleared = std::move(closed.cleared)},
      state, findings);
}

void SaidStale::say(StaleGradients stale, const RunState& state, Findings& findings) {
  const std::int64_t cycle = state.now().cycle;
  if (std::exchange(cycle_, cycle) == cycle) return;
  std::ranges::sort(stale.parameters);
  const bool is_more = !told_.empty() && stale.parameters.size() > told_.size() &&
                       std::ranges::includes(stale.parameters, told_);
  if (is_more) {
    stale.parameters = told_;
    stale.all = false;
  }
  told_ = stale.parameters;
  say_stale(stale, state, findings);
}

void say_foreign(const ForeignGradients::Applied& applied, const RunState& state,
                 Findings& findings) {
  const OptimizerState& own = state.optimizers().at(applied.optimizer);
  const OptimizerState& other = state.optimizers().at(applied.other);
  const std::string own_name = name_among(own, state);
  const std::string other_name = name_among(other, state);
  const bool is_fault = applied.sign != ForeignGradients::Sign::kPassedBy;
  std::vector<const TensorState*> tensors;
  for (const TensorId id : applied.parameters) tensors.push_back(state.tensor(id));
  std::erase(tensors, nullptr);
  for (const TensorGroup& group : collapse(state, tensors)) {
    Finding finding = about(group);
    finding.severity = is_fault ? Severity::kWarning : Severity::kNote;
    const auto count = static_cast<std::int64_t>(group.tensors.size());
    finding.what = fmt::format(
        "gradients of the backward before a step of {} are still in {}{} ({}; other_loss)",
        other_name, applied.all && count > 1 ? "all " : "", counted(count, "parameter"),
        counted(elements_of(group.tensors), "element"));
    finding.why = why_foreign(applied, own_name, other_name);
    finding.fixes = fixes_of_foreign(applied, own_name, other_name);
    finding.facts.push_back({fact::kCause, std::string("other_loss")});
    finding.facts.push_back({fact::kOptimizers, as_fact({own_name, other_name})});
    findings.push_back(std::move(finding));
  }
}

bool is_updated_by_program(const TensorState& tensor, const RunState& state) {
  return !tensor.registrations.empty() && tensor.follows == 0 &&
         std::ranges::none_of(tensor.owners, [&state](OptimizerId owner) {
           const auto known = state.optimizers().find(owner);
           return known != state.optimizers().end() && known->second.steps > 0;
         });
}

namespace {
/// It holds members and has never stepped.
bool is_idle_beside(const OptimizerState& other, const OptimizerState& optimizer) {
  return other.id != optimizer.id && other.members_known && other.steps == 0;
}
}  // namespace

bool may_be_within_another_loop(const OptimizerState& optimizer, bool zeroed_first,
                                const ClearedBeside& beside, const RunState& state) {
  if (optimizer.steps >= kStepsOfInnerLoop) return false;
  return zeroed_first || std::ranges::any_of(state.optimizers(), [&](const auto& entry) {
           return is_idle_beside(entry.second, optimizer) &&
                  !beside.is_each_step(optimizer.id, entry.first, optimizer.steps);
         });
}

std::string cleared_instead_of(const OptimizerState& optimizer, const ClearedBeside& beside,
                               const RunState& state) {
  for (const auto& [id, other] : state.optimizers()) {
    if (is_idle_beside(other, optimizer) &&
        beside.is_each_step(optimizer.id, id, optimizer.steps)) {
      return name_among(other, state);
    }
  }
  return "";
}

Finding period_exceeded(std::int64_t accumulations, std::int64_t period,
                        const OptimizerState& optimizer, const RunState& state) {
  Finding finding;
  if (const ModelState* model = state.model_of(optimizer)) finding.model = model->label;
  finding.subject = optimizer_label(optimizer);
  finding.severity = Severity::kNote;
  finding.what = fmt::format("{} before the step, {} in each of the earlier ones (period_exceeded)",
                             counted(accumulations, "accumulation"), period);
  finding.why = "a step was skipped, or the rest of an epoch was carried into the next one";
  finding.fixes = {
      {"clear the gradients where an accumulation is given up", Applicability::kNeedsDecision}};
  finding.facts = {{fact::kCause, std::string("period_exceeded")},
                   {fact::kAccumulationsCount, accumulations},
                   {fact::kPeriod, period},
                   {fact::kOptimizers, as_fact({optimizer_label(optimizer)})}};
  return finding;
}

}  // namespace ddpscope
