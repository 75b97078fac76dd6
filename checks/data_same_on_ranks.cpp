#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "checks/check.h"
#include "checks/rank_sides.h"
#include "model/fact_keys.h"
#include "model/rank_words.h"

namespace ddpscope {
namespace {
using enum Applicability;

std::vector<Fix> fixes_for_data() {
  return {{"torch::data::samplers::DistributedRandomSampler(size, world_size, rank)", kLikely},
          {"pass rank and number of ranks to what picks the samples", kLikely},
          {"ranks that share their data on purpose: Attachment::declare with kSharedData",
           kNeedsDecision}};
}

/// Groups beside the first one are told with it.
void add_others(const Cohort& cohort, RankList& ranks, Finding& finding) {
  for (std::size_t i = 1; i < cohort.same_batches.size(); ++i) {
    const RankList& others = cohort.same_batches[i].ranks;
    finding.what += fmt::format(", and so do {}", rank_words(others));
    ranks.insert(ranks.end(), others.begin(), others.end());
  }
  std::ranges::sort(ranks);
  finding.ranks = ranks;
}

Finding describe_data(const SameBatches& same, const Cohort& cohort) {
  const bool all = same.ranks.size() == cohort.ranks.size();
  const std::string cause = same.in_another_order ? "whole_set_per_rank" : all ? "all" : "some";
  Finding finding = finding_on(same.ranks, same.step);
  finding.phase = Phase::kForward;
  finding.severity = same.in_another_order ? Severity::kWarning : Severity::kError;
  if (!cohort.averages) finding.severity = severity_in(cohort);
  if (same.in_another_order) {
    finding.what = fmt::format("{:.0f} % of the batches of {} are the same, in another order",
                               100 * same.overlap_ratio, rank_words(same.ranks));
    finding.why = "each rank goes through the whole set, in an order of its own";
  } else {
    const std::size_t count = cohort.ranks.size();
    finding.what = fmt::format("{} read identical batches in {} steps",
                               all ? fmt::format("all {} ranks", count)
                                   : fmt::format("{} of {}", rank_words(same.ranks), count),
                               same.steps);
    finding.why = "the same seed and nothing that depends on the rank picks the samples: " +
                  fmt::format("{} processes do the work of one", same.ranks.size());
  }
  finding.why += severity_words(cohort);
  RankList ranks = same.ranks;
  add_others(cohort, ranks, finding);
  finding.fixes = fixes_for_data();
  finding.facts = {{fact::kCause, cause},
                   {fact::kEqualRanks, as_fact(ranks)},
                   {fact::kStepsCount, same.steps},
                   {fact::kOverlapRatio, same.overlap_ratio}};
  if (!same.shape.empty()) finding.facts.push_back({fact::kBatchShape, same.shape});
  return finding;
}

/// data-same-on-ranks; docs/checks/data-same-on-ranks.md
class DataSameOnRanks final : public Check {
 public:
  void on_ranks_compared(const RanksComparedEvent& run, Findings& findings) override {
    for (const Cohort& cohort : run.cohorts) {
      if (cohort.same_batches.empty()) continue;
      findings.push_back(describe_data(cohort.same_batches.front(), cohort));
    }
  }
};
}  // namespace

std::unique_ptr<Check> make_data_same_on_ranks() { return std::make_unique<DataSameOnRanks>(); }

}  // namespace ddpscope
