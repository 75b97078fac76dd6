#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "checks/averaged_weights.h"
#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/local_updates.h"
#include "checks/own_parts.h"
#include "checks/parameter_drift.h"
#include "checks/parameter_text.h"
#include "checks/rank_sides.h"
#include "checks/running_statistics.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
/// What no gradient trains never is an error. One that each rank drew for itself is hardly meant,
/// nor is one that all ranks run in training.
Severity severity_of(const ValuesDiffer& values, const Cohort& cohort) {
  // How far they come apart later is not known.
  if (is_rounding_of(values, cohort) && are_equal_again(values, cohort)) return Severity::kNote;
  if (!are_frozen(values)) return severity_in(cohort);
  const bool is_hardly_meant = is_of_start(values) || values.runs_on_all;
  return std::min(severity_in(cohort), is_hardly_meant ? Severity::kWarning : Severity::kNote);
}

bool differ_by_part(const ValuesDiffer& values, const Cohort& cohort) {
  return !values.tensors.empty() &&
         std::ranges::all_of(values.tensors, [&cohort](const DifferingTensor& tensor) {
           return are_parts(tensor.sides, cohort);
         });
}

/// What rounding parted may be made equal again now and then.
bool is_long_ago(const ValuesDiffer& values, const Cohort& cohort) {
  constexpr std::int64_t kLong = 32;  // steps
  return std::ranges::any_of(cohort.counts, [&values](const RankCounts& rank) {
    return rank.step - values.step >= kLong;
  });
}

Finding describe_parameters(const ValuesDiffer& values, const Cohort& cohort,
                            const LocalUpdates& local) {
  const std::string cause = is_of_start(values) ? "init_not_synced" : "drift";
  const std::string input = differing_input(values, cohort);
  const RankList minority = minority_of(values.sides);
  Finding finding = finding_on(all_of(values.sides), values.step);
  finding.severity = severity_of(values, cohort);
  finding.module_path = values.module_path;
  if (!values.tensors.empty()) finding.model = values.tensors.front().model;
  if (values.tensors.size() == 1) {
    set_place(finding, values.tensors.front().model, values.tensors.front().path);
  }
  finding.what = what_parameters_differ(values, cause, is_rounding_of(values, cohort));
  finding.why = minority_words(values.sides) + why_parameters_differ(values, input, cohort);
  finding.fixes = fixes_for_parameters(values, input, cohort);
  tell_meant(cohort, local, differ_by_part(values, cohort), finding);
  if (are_routed_parts(values, cohort)) tell_routed_parts(finding);
  finding.facts = {{fact::kCause, cause},
                   {fact::kFirstBadStep, values.step},
                   {fact::kMinorityRanks, as_fact(minority)}};
  if (values.equal_until >= 0) {
    finding.facts.push_back({fact::kLastEqualStep, values.equal_until});
  }
  if (values.compared > 0) finding.facts.push_back({fact::kDifferingCount, values.differing});
  if (!values.tensors.empty()) {
    finding.facts.push_back({fact::kFirstPath, values.tensors.front().path});
  }
  if (!input.empty()) finding.facts.push_back({fact::kDifferingInput, input});
  add_estimate(values, finding);
  return finding;
}

/// rank-parameters-differ; docs/checks/rank-parameters-differ.md
class RankParametersDiffer final : public Check {
 public:
  void on_ranks_compared(const RanksComparedEvent& run, Findings& findings) override {
    for (const Cohort& cohort : run.cohorts) {
      if (cohort.ranks.size() < 2) continue;
      const bool is_told = tell_averaged_weights(cohort, run.live, findings);
      for (const ValuesDiffer& values : cohort.values) {
        if (values.of_buffers || (is_told && !is_of_start(values))) continue;
        judge(values, cohort, run.live, findings);
      }
    }
  }

 private:
  static void judge(ValuesDiffer values, const Cohort& cohort, bool is_live, Findings& findings) {
    values.step = first_bad_step(values, cohort);
    const bool by_gradients = differing_input(values, cohort) == kByGradient;
    const LocalUpdates local =
        by_gradients ? local_updates_before(cohort, values.step) : LocalUpdates{};
    if (is_live && local.kind == LocalUpdates::Kind::kMaybe) return;
    // By the calls of steps it is known what they are.
    if (is_live && may_be_own_parts(values) && cohort.reductions.empty()) return;
    if (is_live && is_rounding_of(values, cohort) && !is_long_ago(values, cohort)) return;
    findings.push_back(describe_parameters(values, cohort, local));
  }
};
}  // namespace

std::unique_ptr<Check> make_rank_parameters_differ() {
  return std::make_unique<RankParametersDiffer>();
}

}  // namespace ddpscope
