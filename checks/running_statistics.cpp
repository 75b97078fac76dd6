#include "checks/running_statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/fact_keys.h"
#include "model/rank_words.h"

namespace ddpscope {
namespace {
constexpr std::array<std::string_view, 3> kStatistics = {"running_mean", "running_var",
                                                         "num_batches_tracked"};
// Of a standard deviation. An estimate twice as large is of less in one case of 300.
constexpr double kApart = 0.05;
constexpr double kSure = 2;

const std::vector<FactScalar>* list_in(const Finding& finding, std::string_view key) {
  const auto fact = std::ranges::find(finding.facts, key, &Fact::key);
  return fact == finding.facts.end() ? nullptr : std::get_if<std::vector<FactScalar>>(&fact->value);
}

/// Some ranks evaluate, others do not, and it matters which.
bool is_local_evaluation(const Finding& finding) {
  if (finding.id != "rank-buffers-differ" || finding.severity != Severity::kWarning) return false;
  const auto* evaluated = list_in(finding, fact::kEvaluatedRanks);
  const Fact statistics{fact::kCause, std::string("running_statistics")};
  const bool of_statistics = std::ranges::any_of(finding.facts, [&](const Fact& fact) {
    return fact.key == statistics.key && fact.value == statistics.value;
  });
  return of_statistics && evaluated != nullptr && evaluated->size() < finding.ranks.size();
}

RankList as_ranks(const std::vector<FactScalar>& list) {
  RankList ranks;
  for (const FactScalar& one : list) {
    if (const auto* rank = std::get_if<std::int64_t>(&one)) ranks.push_back(*rank);
  }
  return ranks;
}
}  // namespace

bool is_running_statistic(std::string_view path) {
  return std::ranges::any_of(kStatistics,
                             [path](std::string_view name) { return path.ends_with(name); });
}

RankList evaluated_ranks(const Cohort& cohort) {
  RankList ranks;
  for (const RankCounts& counts : cohort.counts) {
    if (counts.evaluated) ranks.push_back(counts.rank);
  }
  return ranks;
}

bool are_means_apart(const ValuesDiffer& values) {
  return std::ranges::any_of(values.estimate, [](const EstimatedDifference& estimate) {
    return estimate.path.ends_with(kStatistics[0]) && estimate.relative >= kSure * kApart;
  });
}

void add_estimate(const ValuesDiffer& values, Finding& finding) {
  for (const EstimatedDifference& estimate : values.estimate) {
    finding.facts.push_back({fact::kEstimatedIn, estimate.path});
    finding.facts.push_back({fact::kEstimatedNorm, estimate.norm});
    finding.facts.push_back({fact::kEstimatedRelative, estimate.relative});
  }
}

void raise_local_norms(const std::vector<Finding*>& all) {
  const auto cause = std::ranges::find_if(
      all, [](const Finding* finding) { return is_local_evaluation(*finding); });
  if (cause == all.end()) return;
  const RankList ranks = as_ranks(*list_in(**cause, fact::kEvaluatedRanks));
  for (Finding* finding : all) {
    if (finding->id != "norm-local-batch-stats" || finding->severity != Severity::kNote) continue;
    finding->severity = Severity::kWarning;
    finding->why += fmt::format("; only {} evaluated with them or saved them", rank_words(ranks));
    finding->facts.push_back({fact::kEvaluatedRanks, *list_in(**cause, fact::kEvaluatedRanks)});
  }
}

}  // namespace ddpscope
