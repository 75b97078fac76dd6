#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "checks/failure_check.h"
#include "checks/finding_text.h"
#include "checks/norm_forecast.h"
#include "checks/norm_layers.h"
#include "checks/run_state.h"
#include "model/fact_keys.h"
#include "model/node_name.h"

namespace ddpscope {
namespace {
using enum Applicability;
constexpr std::int64_t kStepsOfFewValues = 2;
constexpr std::size_t kMaxNormsAlone = 3;
constexpr std::size_t kMaxNormPaths = 64;

Finding about_few_values(std::vector<NormLayer> layers, const RunState& state) {
  const NormLayer& smallest = std::ranges::min(layers, {}, &NormLayer::values_per_channel);
  const std::int64_t values = smallest.values_per_channel;
  const std::int64_t rows = smallest.input.empty() ? 0 : smallest.input.front();
  Finding finding;
  finding.severity = values > 1 ? Severity::kWarning : Severity::kError;
  finding.phase = Phase::kForward;
  finding.op = smallest.over_ranks() ? kSyncBatchNorm : "aten::batch_norm";
  place_at(layers, state, finding);
  finding.what = fmt::format("{} per channel", counted(values, "value"));
  finding.what += smallest.over_ranks() ? " on all ranks together"
                                        : fmt::format(", input {}", shape_text(smallest.input));
  if (values > 1) finding.what += fmt::format(", in {}", counted(kStepsOfFewValues, "step"));
  finding.why = fmt::format(
      "{}; {}",
      smallest.over_ranks() ? "the batches of all ranks are that short"
                            : fmt::format("the batch has {}", counted(rows, "row")),
      values > 1 ? "mean and variance of so few values are mostly noise, also in the running "
                   "statistics that evaluation uses"
                 : "one value has no variance, so that every output would be the layer's bias");
  finding.fixes = {
      {"leave out the short batch: DataLoaderOptions().drop_last(true)", kLikely},
      {"normalise over groups of channels or a layer instead of the batch", kNeedsDecision}};
  finding.facts = {{fact::kValuesPerChannel, values}};
  if (!smallest.over_ranks()) {
    finding.facts.push_back({fact::kInputShape, shape_text(smallest.input)});
    finding.facts.push_back({fact::kBatchRows, rows});
  }
  if (values > 1) finding.fixes.insert(finding.fixes.begin(), {"a larger batch", kNeedsDecision});
  if (layers.size() == 1) return finding;
  finding.what = fmt::format("{} over few values; in {} {}", counted(std::ssize(layers), "layer"),
                             smallest.path, finding.what);
  std::vector<std::string> paths;
  for (const NormLayer& layer : layers) paths.push_back(layer.path);
  if (paths.size() > kMaxNormPaths) paths.resize(kMaxNormPaths);
  finding.facts.push_back({fact::kModules, as_fact(paths)});
  finding.facts.push_back({fact::kModulesCount, std::ssize(layers)});
  return finding;
}

/// norm-batch-of-one; docs/checks/norm-batch-of-one.md
class NormBatchOfOne final : public FailureCheck {
 public:
  // LibTorch refuses a single value in a header, before any operator runs.
  void on_error(const ErrorEvent& event, const RunState& state, Findings&) override {
    const auto layer = refused_norm(event, state);
    if (!layer.has_value() || refused_.size() >= kMaxNormsAlone) return;
    refused_.push_back(about_few_values({*layer}, state));
    refused_.back().step = event.at.step;
  }

  void on_batch_request(const BatchRequestEvent& event, const RunState&, Findings&) override {
    forecast_.saw(event);
  }

  void on_training_op(const TrainingOpEvent& event, const RunState& state,
                      Findings& findings) override {
    const auto layer = trained_norm(event, state);
    if (!layer.has_value()) return;
    if (auto note = forecast_.saw(*layer, event.at, state)) findings.push_back(*std::move(note));
    if (layer->values_per_channel > kFewNormValues) return;
    Seen& seen = seen_[{layer->model, layer->path}];
    if (seen.step == event.at.step) return;
    seen.step = event.at.step;
    ++seen.steps;
    if (seen.steps == 1 || layer->values_per_channel < seen.layer.values_per_channel) {
      seen.layer = *layer;
    }
  }

  void on_cycle_end(const CycleEndEvent& event, const RunState& state,
                    Findings& findings) override {
    FailureCheck::on_cycle_end(event, state, findings);
    judge(state, findings);
  }
  void on_exit(const ExitEvent& event, const RunState& state, Findings& findings) override {
    FailureCheck::on_exit(event, state, findings);
    judge(state, findings);
  }

 private:
  struct Seen {
    NormLayer layer;
    std::int64_t step = 0;
    std::int64_t steps = 0;
    Severity told = Severity::kNote;
  };

  void judge(const RunState& state, Findings& findings) {
    std::map<std::pair<Severity, ModelId>, std::vector<NormLayer>> news;
    for (auto& [place, seen] : seen_) {
      const bool single = seen.layer.values_per_channel == 1;
      const Severity severity = single ? Severity::kError : Severity::kWarning;
      if (seen.told >= severity || seen.steps < (single ? 1 : kStepsOfFewValues)) continue;
      seen.told = severity;
      news[{severity, place.first}].push_back(seen.layer);
    }
    for (const auto& [kind, layers] : news) {
      if (layers.size() > kMaxNormsAlone) {
        findings.push_back(about_few_values(layers, state));
        continue;
      }
      for (const NormLayer& layer : layers) findings.push_back(about_few_values({layer}, state));
    }
  }

  void decide(Severity severity, Findings& findings) override {
    for (Finding& finding : refused_) {
      finding.severity = severity;
      if (severity == Severity::kNote) finding.why += "; the program caught it and trained on";
      findings.push_back(std::move(finding));
    }
    refused_.clear();
  }

  NormForecast forecast_;
  std::map<std::pair<ModelId, std::string>, Seen> seen_;
  Findings refused_;
};
}  // namespace

std::unique_ptr<Check> make_norm_batch_of_one() { return std::make_unique<NormBatchOfOne>(); }

}  // namespace ddpscope
