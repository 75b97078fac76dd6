#include "checks/unsynced_ranks.h"

#include <fmt/format.h>

#include "checks/rank_sides.h"
#include "model/fact_keys.h"

namespace ddpscope {
using enum Applicability;

void find_unsynced(const Cohort& cohort, Findings& findings) {
  if (cohort.patterns.empty()) return;
  const SyncPatternsDiffer& patterns = cohort.patterns.front();
  Finding finding = finding_on(all_of(patterns.sides), patterns.step);
  finding.severity = Severity::kError;
  finding.phase = Phase::kReduce;
  finding.last_step = patterns.step + patterns.steps - 1;
  finding.occurrences = patterns.steps;
  finding.what = fmt::format(
      "of {} backwards before step() those that were averaged differ between ranks: {} "
      "(rank_dependent)",
      patterns.period, sides_text(patterns.sides));
  finding.why =
      "collectives are matched by their number: gradients of one micro-batch are summed with those "
      "of another one, and what a rank adds after its last collective is its own";
  finding.fixes = {
      {"count the micro-batches on all ranks alike, and average after the last one of a step",
       kSafe},
      {"average once, after the loop over the parts of a step", kSafe}};
  finding.facts = {{fact::kCause, std::string("rank_dependent")},
                   {fact::kPeriod, patterns.period},
                   {fact::kRankPatterns, per_side(patterns.sides)}};
  findings.push_back(std::move(finding));
}

}  // namespace ddpscope
