#include "checks/zero_rates.h"

#include <fmt/format.h>

#include <algorithm>

#include "checks/finding_text.h"
#include "checks/update_text.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
// Longer than the first steps of a warm-up that rises from 0.
constexpr std::int64_t kStepsWithoutRate = 16;
constexpr std::int64_t kWatchedWithoutRate = 8;
// Longer than a schedule that ends at 0 a little early.
constexpr std::int64_t kLastStepsWithoutRate = 64;
constexpr std::int64_t kLastWatchedWithoutRate = 32;

/// What has no options that are known may have one.
bool may_have_rate(const OptimizerState& optimizer) {
  return !optimizer.of_libtorch || optimizer.options.empty() ||
         std::ranges::any_of(optimizer.options, [](const GroupOptions& options) {
           return options.learning_rate != 0;
         });
}

bool some_rate(const RunState& state) {
  return std::ranges::any_of(state.optimizers(), [](const auto& entry) {
    return entry.second.steps > 0 && may_have_rate(entry.second);
  });
}

Finding about_rate(const OptimizerState& optimizer, double rate, const std::string& cause,
                   const RunState& state) {
  Finding finding = about_optimizer(optimizer, cause, state);
  finding.facts.push_back({fact::kLr, rate});
  return finding;
}

Finding rate_finding(const OptimizerState& optimizer,
                     const std::vector<const TensorState*>& members, std::int64_t steps,
                     const RunState& state) {
  using enum Applicability;
  Finding finding = about_rate(optimizer, 0, "no_effect", state);
  finding.severity = Severity::kWarning;
  finding.what =
      fmt::format("step() changed nothing in {} steps: its learning rate is 0 (no_effect)", steps);
  finding.why = fmt::format("{} holds {} with gradients, and the learning rate of {}",
                            optimizer_label(optimizer), counted(std::ssize(members), "parameter"),
                            optimizer.groups.size() == 1 ? "its group is 0"
                                                         : fmt::format("each of its {} groups is 0",
                                                                       optimizer.groups.size()));
  finding.fixes = {
      {"set the learning rate: a quotient of two integers, as 1 / epochs, is 0", kLikely},
      {"look at the schedule: a warm-up from 0 must rise with each step", kLikely}};
  return finding;
}
}  // namespace

std::optional<Finding> ZeroRates::on(const OptimizerStepEvent& event, const RunState& state) {
  const auto known = state.optimizers().find(event.optimizer);
  if (known == state.optimizers().end()) return std::nullopt;
  Steps& own = steps_[event.optimizer];
  if (auto finding = own.told ? std::nullopt : negative(known->second, state)) {
    own.told = true;
    return finding;
  }
  const bool has_rate = may_have_rate(known->second);
  own.has_rate = own.has_rate || has_rate;
  own.last = event.at.step;
  own.at_zero = has_rate ? 0 : own.at_zero + 1;
  if (own.at_zero == 1) own.first_at_zero = event.at.step;
  if (own.has_rate || own.told) return std::nullopt;
  if (own.watched++ == 0) own.first = event.at.step;
  const std::int64_t steps = event.at.step - own.first + 1;
  if (steps < kStepsWithoutRate || own.watched < kWatchedWithoutRate) return std::nullopt;
  const auto members = trained_members(known->second, state);
  if (some_rate(state) || members.empty()) return std::nullopt;
  own.told = true;
  return rate_finding(known->second, members, steps, state);
}

std::optional<Finding> ZeroRates::negative(const OptimizerState& optimizer, const RunState& state) {
  if (!optimizer.of_libtorch) return std::nullopt;
  for (std::size_t i = 0; i < optimizer.options.size(); ++i) {
    const double rate = optimizer.options[i].learning_rate;
    const auto members = trained_members(optimizer, state);
    if (rate >= 0 || members.empty()) continue;
    Finding finding = about_rate(optimizer, rate, "negative_rate", state);
    finding.severity = Severity::kError;
    finding.what = fmt::format(
        "step() goes up the slope of the loss: the learning rate of group {} "
        "is {:.4g} (negative_rate)",
        i, rate);
    finding.why = fmt::format("{} subtracts rate times gradient", optimizer_label(optimizer));
    finding.fixes = {{"set a learning rate above 0", Applicability::kSafe},
                     {"to maximise, call backward() on the negative loss", Applicability::kLikely}};
    return finding;
  }
  return std::nullopt;
}

void ZeroRates::at_exit(const RunState& state, Findings& findings) const {
  if (is_said_ || some_rate(state)) return;
  for (const auto& [id, own] : steps_) {
    const auto known = state.optimizers().find(id);
    if (known == state.optimizers().end() || own.told || !own.has_rate) continue;
    const std::int64_t steps = own.last - own.first_at_zero + 1;
    const bool is_long = own.at_zero >= kLastWatchedWithoutRate && steps >= kLastStepsWithoutRate;
    const auto members = trained_members(known->second, state);
    const bool goes_on = std::ranges::any_of(members, [&](const TensorState* member) {
      return member->gradient_cycle >= known->second.last_step_cycle;
    });
    if (!is_long || !goes_on || state.now().step > own.last + 1) continue;
    findings.push_back(rate_finding(known->second, members, steps, state));
    Finding& finding = findings.back();
    finding.what = fmt::format(
        "step() changed nothing in the last {} steps: its learning rate fell to 0 (no_effect)",
        steps);
    finding.fixes = {{"look at the schedule: it ends before the training does, or its factor is 0",
                      Applicability::kLikely},
                     {"end the training where the rate is 0", Applicability::kNeedsDecision}};
  }
}

bool ZeroRates::told(OptimizerId optimizer) const {
  const auto found = steps_.find(optimizer);
  return found != steps_.end() && found->second.told;
}

void ZeroRates::clear() {
  for (auto& [id, steps] : steps_) steps.watched = steps.at_zero = 0;
}

}  // namespace ddpscope
