#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/local_updates.h"
#include "checks/parameter_drift.h"
#include "checks/rank_sides.h"
#include "checks/running_statistics.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
std::string words_of_steps(const ValuesDiffer& values) {
  if (values.step == 0) return "before the first step";
  if (values.equal_until < 0) return fmt::format("when step {} began", values.step);
  return fmt::format("when step {} began and were equal {}", values.step,
                     values.equal_until == 0
                         ? "before the first"
                         : fmt::format("when step {} began", values.equal_until));
}

/// What no gradient trains never is an error. One that each rank drew for itself is hardly meant.
Severity severity_of(const ValuesDiffer& values, const Cohort& cohort) {
  if (!are_frozen(values)) return severity_in(cohort);
  return std::min(severity_in(cohort), values.step == 0 ? Severity::kWarning : Severity::kNote);
}

bool differ_by_part(const ValuesDiffer& values, const Cohort& cohort) {
  return !values.tensors.empty() &&
         std::ranges::all_of(values.tensors, [&cohort](const DifferingTensor& tensor) {
           return are_parts(tensor.sides, cohort);
         });
}

std::string text_of_parameters(const ValuesDiffer& values, const std::string& cause) {
  const std::string count =
      values.compared == 0 ? "the parameters"
                           : fmt::format("{} of {} parameters", values.differing, values.compared);
  return fmt::format("{} differ between ranks {}{} ({})", count, words_of_steps(values),
                     are_frozen(values) ? ", none of which is trained" : "", cause);
}

std::string why_parameters_differ(const ValuesDiffer& values, const std::string& input,
                                  const Cohort& cohort) {
  const std::string seen =
      were_broadcast(values, cohort)
          ? "broadcasts of as many elements ran before: of other tensors than these, or some ranks "
            "changed these afterwards, as by a checkpoint that one rank loads"
      : values.step == 0
          ? "each process draws its own initial values, and no broadcast made them equal"
      : are_frozen(values)
          ? "the program changed them on some ranks alone, as an average of weights that one rank "
            "keeps"
      : input.empty() ? "something changed the parameters or the optimizer's state of some ranks "
                        "alone, or their gradients were not the same when it stepped"
                      : fmt::format("the ranks differed in their {} first", input);
  return seen + severity_words(cohort);
}

std::vector<Fix> fixes_for_parameters(const ValuesDiffer& values, const std::string& input,
                                      const Cohort& cohort) {
  using enum Applicability;
  if (were_broadcast(values, cohort)) {
    return {{"broadcast every parameter and buffer of rank 0 after the last change of them, right "
             "before the first step",
             kSafe},
            {"load the checkpoint on every rank", kLikely}};
  }
  if (values.step > 0 && are_frozen(values)) {
    return {{"none, if the other ranks do not use them; else broadcast them", kNeedsDecision}};
  }
  if (values.step == 0) {
    return {{"broadcast every parameter and buffer of rank 0 after the model is built", kSafe},
            {"seed every rank alike before the model is built", kLikely}};
  }
  if (!input.empty() && input != kByGradient) {
    return {{"make equal on all ranks what rank-optimizer-differs tells of", kLikely}};
  }
  return {{"average every gradient over all ranks before each optimizer step; for a step with a "
           "closure, in it",
           kLikely},
          {"change parameters by hand on all ranks alike, or broadcast them afterwards", kLikely},
          {"declare what differs on purpose: Attachment::declare with kRankLocal or kSharded",
           kNeedsDecision}};
}

Finding describe_parameters(const ValuesDiffer& values, const Cohort& cohort,
                            const LocalUpdates& local) {
  const std::string cause = values.step == 0 ? "init_not_synced" : "drift";
  const std::string input = differing_input(values, cohort);
  const RankList minority = minority_of(values.sides);
  Finding finding = finding_on(all_of(values.sides), values.step);
  finding.severity = severity_of(values, cohort);
  finding.module_path = values.module_path;
  if (!values.tensors.empty()) finding.model = values.tensors.front().model;
  if (values.tensors.size() == 1) {
    set_place(finding, values.tensors.front().model, values.tensors.front().path);
  }
  finding.what = text_of_parameters(values, cause);
  finding.why = minority_words(values.sides) + why_parameters_differ(values, input, cohort);
  finding.fixes = fixes_for_parameters(values, input, cohort);
  tell_meant(cohort, local, differ_by_part(values, cohort), finding);
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
      for (const ValuesDiffer& values : cohort.values) {
        if (!values.of_buffers) judge(values, cohort, run.live, findings);
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
    findings.push_back(describe_parameters(values, cohort, local));
  }
};
}  // namespace

std::unique_ptr<Check> make_rank_parameters_differ() {
  return std::make_unique<RankParametersDiffer>();
}

}  // namespace ddpscope
