#include "checks/unreduced_parts.h"

#include <fmt/format.h>

#include "checks/rank_sides.h"
#include "model/fact_keys.h"

namespace ddpscope {

void find_unreduced_parts(const Cohort& cohort, Findings& findings) {
  constexpr std::ptrdiff_t kPartSteps = 4;
  const auto& steps = cohort.unreduced_parts;
  if (std::ssize(steps) < kPartSteps) return;
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
