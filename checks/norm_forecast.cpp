#include "checks/norm_forecast.h"

#include <fmt/format.h>

#include "model/fact_keys.h"
#include "model/rank_words.h"

namespace ddpscope {
namespace {
// A layer's channels have one value per row, and its rows are those that the loader gave.
bool takes_batches_of(const BatchRequestEvent& request, const NormLayer& layer) {
  return !layer.over_ranks() && layer.values_per_channel == request.rows && !layer.input.empty() &&
         layer.input.front() == request.rows;
}
}  // namespace

std::optional<Finding> NormForecast::saw(const NormLayer& layer, const Stamp& at,
                                         const RunState& state) {
  if (told_ || request_.rows == 0 || request_.at.step != at.step) return std::nullopt;
  if (request_.rows_left % request_.rows != 1 || request_.rows_left == 1) return std::nullopt;
  if (!takes_batches_of(request_, layer)) return std::nullopt;
  told_ = true;
  const std::int64_t batches = request_.rows_left / request_.rows + 1;
  using enum Applicability;
  Finding finding;
  finding.severity = Severity::kNote;
  finding.confidence = Confidence::kMedium;  // whether the loader drops it is not known
  finding.phase = Phase::kForward;
  finding.op = "aten::batch_norm";
  place_at({layer}, state, finding);
  finding.what =
      fmt::format("1 value per channel in the last of {} batches, if it is kept", batches);
  finding.why = fmt::format(
      "the sampler has {} left, for batches of {}: the last one has 1 row, "
      "which batch normalisation refuses",
      counted(request_.rows_left, "row"), request_.rows);
  finding.fixes = {
      {"DataLoaderOptions().drop_last(true), where it is not set", kLikely},
      {"normalise over groups of channels or a layer instead of the batch", kNeedsDecision}};
  finding.facts = {{fact::kValuesPerChannel, std::int64_t{1}},
                   {fact::kBatchRows, std::int64_t{1}},
                   {fact::kForecastStep, at.step + batches - 1}};
  return finding;
}

}  // namespace ddpscope
