#include "checks/epoch_forecast.h"

#include <fmt/format.h>

#include <algorithm>

#include "checks/rank_sides.h"
#include "model/fact_keys.h"
#include "model/rank_words.h"

namespace ddpscope {

Finding epoch_forecast(const EpochsDiffer& epochs) {
  using enum Applicability;
  RankList lagging;
  RankList others;
  for (const RankSide& side : epochs.sides) {
    RankList& ranks = side.value == std::to_string(epochs.least) ? lagging : others;
    ranks.insert(ranks.end(), side.ranks.begin(), side.ranks.end());
  }
  std::ranges::sort(others);
  Finding finding = finding_on(lagging, epochs.step);
  finding.severity = Severity::kNote;
  finding.confidence = Confidence::kMedium;  // ranks may be joined, or drop a short batch
  finding.phase = Phase::kForward;
  finding.what = "batches left in this epoch: " + sides_text(epochs.sides);
  finding.why = fmt::format(
      "after {} of them {} will wait for {} in the next average, unless uneven epochs are joined "
      "or "
      "a short last batch is dropped",
      epochs.least, rank_words(others), rank_words(lagging));
  finding.fixes = {
      {"drop or repeat the tail of the data so that all ranks have as many batches", kSafe},
      {"reduce a flag that says whether every rank still has data, in each step", kSafe}};
  finding.facts = {{fact::kCause, std::string("forecast")},
                   {fact::kCounter, std::string("batches")},
                   {fact::kValuePerRank, per_side(epochs.sides)},
                   {fact::kLaggingRanks, as_fact(lagging)},
                   {fact::kWaitingRanks, as_fact(others)},
                   {fact::kForecastStep, epochs.step + epochs.least}};
  return finding;
}

bool is_forecast(const Finding& finding) {
  return std::ranges::count(finding.facts, fact::kForecastStep, &Fact::key) > 0;
}

}  // namespace ddpscope
