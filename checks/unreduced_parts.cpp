#include "checks/unreduced_parts.h"

#include <fmt/format.h>

#include "checks/finding_text.h"
#include "checks/rank_sides.h"
#include "checks/reduction_text.h"
#include "model/fact_keys.h"

namespace ddpscope {

namespace {
using enum Applicability;
constexpr std::int64_t kOwnSteps = 3;

bool are_none_seen(const ReductionStep& step) { return step.is_alone() || !step.reduces_last; }

std::string why_of_owner(const ReductionStep& step) {
  const std::string place =
      step.of_owner > 1 ? step.first_of_owner.path + " is the first of them: " : std::string();
  const std::string calls = are_none_seen(step)
                                ? "no collective took a gradient to it"
                                : calls_text(step.calls) + ", and none left their sum there";
  return place + "every rank brings a gradient, the rank whose optimizer has the parameter steps " +
         "with its own, and " + calls + ": what the others brought is lost";
}

/// Each step of a run of ranks of which each steps some parameters, and sends them to the others.
void find_steps_of_owners(const Cohort& cohort, Findings& findings) {
  const ReductionRun run = first_run_of(
      cohort.owned, kOwnSteps, [](const ReductionStep& step) { return step.of_owner > 0; });
  if (run.first == nullptr) return;
  const ReductionStep& step = *run.first;
  Finding finding = finding_on(cohort.ranks, step.step);
  const bool is_averaged = cohort.averages && cohort.equal_at_start && !are_none_seen(step);
  finding.severity = is_averaged ? Severity::kError : Severity::kWarning;
  finding.phase = Phase::kReduce;
  finding.model = step.first_of_owner.model;
  if (step.of_owner == 1) set_place(finding, finding.model, step.first_of_owner.path);
  finding.last_step = run.last->step;
  finding.occurrences = run.steps;
  const std::string cause = are_none_seen(step) ? "none_seen" : "subset";
  finding.what = fmt::format("{} of {} {} stepped with what one of {} ranks computed alone ({})",
                             step.of_owner, counted(step.sampled, "sampled gradient"),
                             step.of_owner == 1 ? "is" : "are", cohort.ranks.size(), cause);
  finding.why = why_of_owner(step);
  finding.fixes = {
      {"reduce each gradient to the rank whose optimizer has its parameter, or to all "
       "ranks, before step()",
       kLikely},
      {"none, where each rank is meant to train its part on its own data", kNeedsDecision}};
  finding.facts = {{fact::kCause, cause},
                   {fact::kDifferingCount, step.of_owner},
                   {fact::kSampledCount, step.sampled},
                   {fact::kCollectivesSinceStepCount, step.calls},
                   {fact::kFirstPath, step.first_of_owner.path}};
  findings.push_back(std::move(finding));
}
}  // namespace

void find_unreduced_parts(const Cohort& cohort, Findings& findings) {
  constexpr std::ptrdiff_t kPartSteps = 4;
  const auto& steps = cohort.unreduced_parts;
  if (std::ssize(steps) < kPartSteps) return find_steps_of_owners(cohort, findings);
  Finding finding = finding_on(cohort.ranks, steps.front());
  finding.severity = Severity::kWarning;
  finding.phase = Phase::kReduce;
  finding.last_step = steps.back();
  finding.occurrences = std::ssize(steps);
  finding.what = fmt::format(
      "each of {} ranks steps its part of the parameters with its own gradients alone (none_seen)",
      cohort.ranks.size());
  finding.why =
      "every rank brings gradients of all parameters, each of another batch; after the step the "
      "ranks give each other the parts, but no call between backward and step() takes a gradient "
      "to the rank that steps it: what the others brought is lost";
  finding.fixes = {{"reduce_scatter the gradients before step(), or reduce each to the rank that "
                    "steps it",
                    Applicability::kLikely},
                   {"none, where each rank is meant to train its part on its own data",
                    Applicability::kNeedsDecision}};
  finding.facts = {{fact::kCause, std::string("none_seen")}};
  findings.push_back(std::move(finding));
}

}  // namespace ddpscope
