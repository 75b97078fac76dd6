#include "checks/disabled_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum Applicability;

Finding about_disabled(Severity severity) {
  Finding finding;
  finding.id = "tool-check-disabled";
  finding.severity = severity;
  return finding;
}
}  // namespace

Finding about_thrown(const std::string& check, const std::string& why) {
  Finding finding = about_disabled(Severity::kWarning);
  finding.subject = check;
  finding.what = fmt::format("check {} {} and is off", check, why);
  finding.why =
      "the fault is the tool's own; training is not affected, what this check would "
      "find from here on is not reported";
  finding.fixes = {{"report it with the JSON file", kSafe}};
  finding.facts = {{fact::kId, check}, {fact::kReason, why}};
  return finding;
}

Finding about_blocked(const std::vector<BlockedCheck>& blocked, std::size_t checks) {
  std::vector<FactScalar> ids;
  std::string reasons;
  for (const auto& [id, why] : blocked) {
    ids.emplace_back(id);
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", id, why);
  }
  Finding finding = about_disabled(Severity::kNote);
  finding.phase = Phase::kExit;
  finding.what = fmt::format("{} of {} checks did not run", ids.size(), checks);
  finding.why = reasons;
  finding.fixes = {
      {"link ddpscope::ddpscope, which stands before LibTorch, or use ddpscope run", kLikely},
      {"leave these checks out: checks=*,-<id>", kNeedsDecision}};
  finding.facts = {{fact::kId, std::move(ids)}, {fact::kReason, std::move(reasons)}};
  return finding;
}

Finding about_rest(const ExitEvent::Rested& rested) {
  Finding finding = about_disabled(Severity::kNote);
  finding.phase = Phase::kExit;
  finding.step = rested.since_step;
  finding.subject = "overhead";
  const char* checks = rested.values_alone ? "checks that read values" : "checks";
  finding.what = fmt::format(
      "{} looked at nearly no step after step {}, to stay near the budget of {:.2g} % of the step "
      "time: {:.2g} % was spent",
      checks, rested.since_step, 100 * rested.budget_ratio, 100 * rested.cost_ratio);
  finding.why = fmt::format(
      "one watched step costs more than the budget leaves; what lasts was seen within {} steps, "
      "what came and went between may not have been",
      rested.latency_steps);
  const double percent = std::max(2.0, 200 * rested.budget_ratio);
  finding.fixes = {{fmt::format("allow a larger share: overhead={:.2g}", percent), kLikely},
                   {"look at less: level=watch, or fewer checks", kNeedsDecision}};
  finding.facts = {{fact::kId, std::string("*")},
                   {fact::kReason, std::string("over budget")},
                   {fact::kSinceStep, rested.since_step},
                   {fact::kCostRatio, rested.cost_ratio},
                   {fact::kBudgetRatio, rested.budget_ratio},
                   {fact::kLatencySteps, rested.latency_steps}};
  return finding;
}

}  // namespace ddpscope
