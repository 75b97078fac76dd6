#include "checks/norm_local_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "checks/finding_text.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum Applicability;
constexpr std::int64_t kFewLocalValues = 16;
constexpr std::string_view kNothingSynchronises =
    "gradients are averaged over the ranks, mean and variance are not: each rank normalises by "
    "its own rows and keeps its own running statistics";
constexpr std::string_view kCameLate =
    "sync_batch_norm is on for the layers that were registered when the ranks compared theirs, in "
    "the first step that trains";
constexpr std::string_view kOnOtherThread =
    "sync_batch_norm is on for calls of the thread that attached the model; those of others could "
    "come in another order on each rank";
constexpr std::string_view kIsNameless =
    "sync_batch_norm tells the layers of a model by their weight and running mean, of which there "
    "is neither here";

std::string_view why_local(const NormLayer& layer) {
  if (layer.scope == NormScope::kNameless) return kIsNameless;
  if (layer.model == 0 || !is_left_out(layer)) return kNothingSynchronises;
  return layer.scope == NormScope::kUnlisted ? kCameLate : kOnOtherThread;
}

Fix over_ranks(const NormLayer& layer) {
  if (layer.scope == NormScope::kNameless) {
    return {"declare a ddpscope::SyncBatchNorm1d, 2d or 3d there, or keep running statistics",
            kNeedsDecision};
  }
  const bool is_on = is_left_out(layer);
  if (layer.model == 0) {
    return {fmt::format("register its weight or running mean in a module, and normalise over the "
                        "ranks{}",
                        is_on ? "" : ": DDPSCOPE=sync_batch_norm=1"),
            kNeedsDecision};
  }
  if (!is_on) return {"normalise over the ranks: DDPSCOPE=sync_batch_norm=1", kNeedsDecision};
  if (layer.scope == NormScope::kOtherThread) {
    return {"train it on the thread that attached its model", kLikely};
  }
  return {
      "build it before the first step that trains, in a model that is attached or has its "
      "optimizer by then",
      kLikely};
}

}  // namespace

bool is_left_out(const NormLayer& layer) {
  return layer.scope == NormScope::kUnlisted || layer.scope == NormScope::kOtherThread ||
         layer.scope == NormScope::kNameless;
}

Finding about_local_norms(const std::vector<NormLayer>& layers, const RunState& state) {
  const NormLayer& smallest = *std::ranges::min_element(layers, {}, &NormLayer::values_per_channel);
  const auto left = std::ranges::find_if(layers, is_left_out);
  const NormLayer& typical = left == layers.end() ? layers.front() : *left;
  const bool was_asked =
      typical.scope == NormScope::kNameless || (is_left_out(typical) && typical.model != 0);
  const std::int64_t rows = smallest.input.front();
  Finding finding;
  finding.severity = was_asked || smallest.values_per_channel < kFewLocalValues ? Severity::kWarning
                                                                                : Severity::kNote;
  finding.phase = Phase::kForward;
  finding.op = "aten::batch_norm";
  place_at(layers, state, finding);
  const bool one = layers.size() == 1;
  finding.what = fmt::format(
      "{} {} over the local batch of {}; {}{} has {} per channel",
      counted(std::ssize(layers), "batch norm layer"), one ? "normalises" : "normalise",
      counted(rows, "row"), one ? "" : "smallest layer ",
      smallest.path.empty() ? "it" : smallest.path, counted(smallest.values_per_channel, "value"));
  finding.why = why_local(typical);
  finding.fixes = {
      {"keep it, where the batch of one rank is large enough for the statistics", kNeedsDecision},
      over_ranks(typical),
      {"normalise over groups of channels or a layer instead of the batch", kNeedsDecision}};
  finding.facts = {{fact::kLayersCount, std::ssize(layers)},
                   {fact::kLocalBatch, rows},
                   {fact::kMinValuesPerChannel, smallest.values_per_channel},
                   {fact::kSmallestLayer, smallest.path}};
  return finding;
}

}  // namespace ddpscope
