#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/rank_sides.h"
#include "checks/running_statistics.h"
#include "model/fact_keys.h"
#include "model/rank_words.h"

namespace ddpscope {
namespace {
constexpr std::size_t kListedBuffers = 64;

bool is_statistic(const DifferingTensor& tensor) { return is_running_statistic(tensor.path); }

/// What is no running statistic says more.
const DifferingTensor& first_buffer(const ValuesDiffer& values) {
  const auto other = std::ranges::find_if_not(values.tensors, is_statistic);
  return other == values.tensors.end() ? values.tensors.front() : *other;
}

std::string cause_of_buffers(const ValuesDiffer& values) {
  if (values.step == 0) return "init_not_synced";
  return std::ranges::all_of(values.tensors, is_statistic) ? "running_statistics" : "drift";
}

/// Where it depends on the rank what its evaluation tells, or what it saved.
bool shows_in_evaluation(const ValuesDiffer& values, const std::string& cause,
                         const Cohort& cohort) {
  return cause == "running_statistics" && are_means_apart(values) &&
         !evaluated_ranks(cohort).empty();
}

Severity severity_of_buffers(const ValuesDiffer& values, const std::string& cause,
                             const Cohort& cohort) {
  const Severity severity = severity_in(cohort);
  if (cause == "running_statistics" && !shows_in_evaluation(values, cause, cohort)) {
    return Severity::kNote;
  }
  if (cause == "running_statistics") return std::min(severity, Severity::kWarning);
  return cause == "drift" ? std::min(severity, Severity::kWarning) : severity;
}

std::string why_buffers_differ(const std::string& cause) {
  if (cause == "init_not_synced") {
    return "the parameters may be broadcast, these buffers were not; what is saved and evaluated "
           "depends on the rank";
  }
  if (cause == "drift") return "the ranks change these buffers differently while they train";
  return "running statistics follow the batches of their own rank; evaluation and a saved model "
         "then depend on the rank";
}

std::vector<Fix> fixes_for_buffers(const std::string& cause) {
  using enum Applicability;
  const Fix declare = {"declare what belongs to one rank: Attachment::declare with kRankLocal",
                       kNeedsDecision};
  if (cause == "init_not_synced") {
    return {{"broadcast every buffer of rank 0 after the model is built", kSafe},
            {"seed every rank alike before the model is built", kLikely},
            declare};
  }
  if (cause == "drift") {
    return {{"broadcast these buffers from one rank after they changed", kLikely}, declare};
  }
  return {{"average the running statistics over the ranks before evaluation and saving", kLikely},
          {"normalise over the ranks, where they are of batch norm: DDPSCOPE=sync_batch_norm=1 or "
           "ddpscope::SyncBatchNorm2d",
           kNeedsDecision}};
}

std::string text_of_buffers(const ValuesDiffer& values, const std::string& cause) {
  const std::string when =
      values.step == 0 ? "before training" : fmt::format("at the end of step {}", values.step);
  if (values.tensors.empty()) return fmt::format("buffers differ between ranks {}", when);
  return fmt::format("{} of {} {} between ranks {} ({}), {} first", values.differing,
                     counted(values.compared, "buffer"),
                     values.differing == 1 ? "differs" : "differ", when, cause,
                     first_buffer(values).path);
}

std::string words_of_evaluation(const ValuesDiffer& values, const Cohort& cohort) {
  const EstimatedDifference& estimate = values.estimate.front();
  return fmt::format(
      "; after step {} the running means lie about {:.2g} standard deviations apart, and {} "
      "evaluated with them or saved them",
      estimate.step, estimate.relative, rank_words(evaluated_ranks(cohort)));
}

Finding describe_buffers(const ValuesDiffer& values, const Cohort& cohort) {
  const std::string cause = cause_of_buffers(values);
  Finding finding = finding_on(all_of(values.sides), values.step);
  finding.severity = severity_of_buffers(values, cause, cohort);
  if (!values.tensors.empty()) {
    set_place(finding, first_buffer(values).model, first_buffer(values).path);
  }
  finding.what = text_of_buffers(values, cause);
  if (shows_in_evaluation(values, cause, cohort)) {
    finding.what += words_of_evaluation(values, cohort);
  }
  finding.why = minority_words(values.sides) + why_buffers_differ(cause);
  finding.fixes = fixes_for_buffers(cause);
  std::vector<FactScalar> paths;
  for (const DifferingTensor& tensor : values.tensors) {
    if (paths.size() < kListedBuffers) paths.emplace_back(tensor.path);
  }
  finding.facts = {{fact::kCause, cause},
                   {fact::kBuffers, std::move(paths)},
                   {fact::kMinorityRanks, as_fact(minority_of(values.sides))}};
  if (values.compared > 0) finding.facts.push_back({fact::kBuffersCount, values.compared});
  add_estimate(values, finding);
  const RankList evaluated = evaluated_ranks(cohort);
  if (!evaluated.empty()) finding.facts.push_back({fact::kEvaluatedRanks, as_fact(evaluated)});
  return finding;
}

/// rank-buffers-differ; docs/checks/rank-buffers-differ.md
class RankBuffersDiffer final : public Check {
 public:
  void on_ranks_compared(const RanksComparedEvent& run, Findings& findings) override {
    for (const Cohort& cohort : run.cohorts) {
      if (cohort.ranks.size() < 2) continue;
      for (const ValuesDiffer& values : cohort.values) {
        if (values.of_buffers) findings.push_back(describe_buffers(values, cohort));
      }
    }
  }
};
}  // namespace

std::unique_ptr<Check> make_rank_buffers_differ() { return std::make_unique<RankBuffersDiffer>(); }

}  // namespace ddpscope
