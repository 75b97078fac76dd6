#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/norm_layers.h"
#include "checks/run_state.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum Applicability;
constexpr std::int64_t kCyclesOfNorms = 3;
constexpr std::int64_t kFewLocalValues = 16;

Finding about_local_norms(const std::vector<NormLayer>& layers, const RunState& state) {
  const NormLayer& smallest = *std::ranges::min_element(layers, {}, &NormLayer::values_per_channel);
  const std::int64_t rows = smallest.input.front();
  Finding finding;
  finding.severity =
      smallest.values_per_channel < kFewLocalValues ? Severity::kWarning : Severity::kNote;
  finding.phase = Phase::kForward;
  finding.op = "aten::batch_norm";
  place_at(layers, state, finding);
  const bool one = layers.size() == 1;
  finding.what = fmt::format(
      "{} {} over the local batch of {}; {}{} has {} per channel",
      counted(std::ssize(layers), "batch norm layer"), one ? "normalises" : "normalise",
      counted(rows, "row"), one ? "" : "smallest layer ",
      smallest.path.empty() ? "it" : smallest.path, counted(smallest.values_per_channel, "value"));
  finding.why =
      "gradients are averaged over the ranks, mean and variance are not: each rank normalises by "
      "its own rows and keeps its own running statistics";
  const bool is_registered = layers.front().model != 0;
  finding.fixes = {
      {"keep it, where the batch of one rank is large enough for the statistics", kNeedsDecision},
      {fmt::format("{}normalise over the ranks: DDPSCOPE=sync_batch_norm=1",
                   is_registered ? "" : "register its weight or running mean in a module, and "),
       kNeedsDecision},
      {"normalise over groups of channels or a layer instead of the batch", kNeedsDecision}};
  finding.facts = {{fact::kLayersCount, std::ssize(layers)},
                   {fact::kLocalBatch, rows},
                   {fact::kMinValuesPerChannel, smallest.values_per_channel},
                   {fact::kSmallestLayer, smallest.path}};
  return finding;
}

/// norm-local-batch-stats; docs/checks/norm-local-batch-stats.md
class NormLocalBatchStats final : public Check {
 public:
  void on_collective(const CollectiveEvent& event, const RunState&, Findings&) override {
    averages_ |= event.averages && event.group_size > 1;
  }

  void on_training_op(const TrainingOpEvent& event, const RunState& state, Findings&) override {
    if (told_ || state.world_size() < 2) return;
    const auto layer = trained_norm(event, state);
    if (!layer.has_value()) return;
    const std::pair place(layer->model, layer->path);
    // In the first step it may not have been known yet over which ranks.
    if (layer->over_ranks) {
      layers_.erase(place);
      over_ranks_.insert(place);
    }
    if (over_ranks_.contains(place)) return;
    const auto [known, is_new] = layers_.try_emplace(place, *layer);
    if (layer->values_per_channel < known->second.values_per_channel) known->second = *layer;
  }

  void on_cycle_end(const CycleEndEvent& event, const RunState& state,
                    Findings& findings) override {
    if (event.at.cycle >= kCyclesOfNorms) judge(state, findings);
  }
  void on_exit(const ExitEvent&, const RunState& state, Findings& findings) override {
    judge(state, findings);
  }

 private:
  void judge(const RunState& state, Findings& findings) {
    if (told_) return;
    std::map<ModelId, std::vector<NormLayer>> by_model;
    for (const auto& [place, layer] : layers_) by_model[place.first].push_back(layer);
    for (const auto& [model, layers] : by_model) {
      if (!averages_ && !state.said_to_average(model)) continue;
      told_ = true;
      findings.push_back(about_local_norms(layers, state));
    }
  }

  std::map<std::pair<ModelId, std::string>, NormLayer> layers_;
  std::set<std::pair<ModelId, std::string>> over_ranks_;
  bool averages_ = false;
  bool told_ = false;
};
}  // namespace

std::unique_ptr<Check> make_norm_local_batch_stats() {
  return std::make_unique<NormLocalBatchStats>();
}

}  // namespace ddpscope
