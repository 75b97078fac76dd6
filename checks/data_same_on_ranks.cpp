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

std::string why_same(const SameBatches& same) {
  const std::size_t count = same.ranks.size();
  if (same.share.replicas == 0) {
    return fmt::format(
        "the same seed and nothing that depends on the rank picks the samples: {} processes do the "
        "work of one",
        count);
  }
  return fmt::format(
      "their samplers were all made with num_replicas {} and rank {}: {} processes do the work of "
      "one",
      same.share.replicas, same.share.replica, count);
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
    finding.why = why_same(same);
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
  if (same.share.replicas > 0) {
    finding.facts.push_back({fact::kReplicasCount, same.share.replicas});
    finding.facts.push_back({fact::kReplica, same.share.replica});
  }
  return finding;
}

Finding describe_unread(const UnreadShares& shares, const Cohort& cohort) {
  const std::int64_t replicas = shares.replicas;
  const auto unread = static_cast<std::int64_t>(shares.unread.size());
  const auto ranks = static_cast<std::int64_t>(cohort.ranks.size());
  Finding finding = finding_on(cohort.ranks, shares.step);
  finding.phase = Phase::kForward;
  finding.severity = cohort.averages ? Severity::kWarning : Severity::kNote;
  finding.what = fmt::format("{:.0f} % of the data is read by no rank (shares_unread)",
                             100.0 * static_cast<double>(unread) / static_cast<double>(replicas));
  finding.why = fmt::format(
      "the samplers were made with num_replicas {}, and no process asks for the share of {}",
      replicas, rank_words(shares.unread));
  finding.fixes = {
      {fmt::format("num_replicas {} for the sampler, the number of ranks that train on the data",
                   ranks),
       kLikely},
      {"ranks that share their data on purpose: Attachment::declare with kSharedData",
       kNeedsDecision}};
  finding.facts = {{fact::kCause, "shares_unread"},
                   {fact::kReplicasCount, replicas},
                   {fact::kUnreadReplicas, as_fact(shares.unread)}};
  return finding;
}

/// data-same-on-ranks; docs/checks/data-same-on-ranks.md
class DataSameOnRanks final : public Check {
 public:
  void on_ranks_compared(const RanksComparedEvent& run, Findings& findings) override {
    for (const Cohort& cohort : run.cohorts) {
      if (!cohort.same_batches.empty()) {
        findings.push_back(describe_data(cohort.same_batches.front(), cohort));
      } else if (!cohort.unread_shares.empty()) {
        findings.push_back(describe_unread(cohort.unread_shares.front(), cohort));
      }
    }
  }
};
}  // namespace

std::unique_ptr<Check> make_data_same_on_ranks() { return std::make_unique<DataSameOnRanks>(); }

}  // namespace ddpscope
