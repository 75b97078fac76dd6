#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/half_series.h"
#include "checks/loss_scale.h"
#include "checks/nonfinite_text.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum Applicability;
constexpr std::int64_t kNearSteps = 3;
constexpr double kLeastScale = 2;

/// numeric-half-range; docs/checks/numeric-half-range.md
class NumericHalfRange final : public Check {
 public:
  void on_half_output(const HalfOutputEvent& event, const RunState& state,
                      Findings& findings) override {
    Module& module = modules_[event.module];
    if (!module.series.add(event.at.step, event.absmax)) return;
    const std::int64_t near = module.series.steps_near_max();
    const auto forecast = module.series.forecast();
    if (module.told || (near < kNearSteps && !forecast.has_value())) return;
    module.told = true;
    findings.push_back(overflow(event.module, module.series, forecast, state));
    if (loss_scale_ > 0) findings.back().facts.push_back({fact::kLossScale, loss_scale_});
  }

  void on_op(const OpEvent& event, const RunState&, Findings&) override { scale_.on_op(event); }

  void on_backward(const BackwardEvent& event, const RunState&, Findings&) override {
    scale_.on_backward(event);
    const double scale = scale_.now().value_or(1);
    if (scale >= kLeastScale) loss_scale_ = scale;
  }

  void on_gradient_values(const GradientValuesEvent& event, const RunState&, Findings&) override {
    if (event.dtype != "float16" || event.values.elements == 0) return;
    const double zero_ratio =
        static_cast<double>(event.zero_count) / static_cast<double>(event.values.elements);
    parameters_[event.tensor].gradients.add(zero_ratio, event.values.absmax);
  }

  void on_cycle_end(const CycleEndEvent&, const RunState& state, Findings& findings) override {
    if (loss_scale_ > 0) return;
    const bool some_tiny = std::ranges::any_of(
        parameters_, [](const auto& entry) { return entry.second.gradients.are_tiny(); });
    std::vector<const TensorState*> flushed;
    for (auto& [id, parameter] : parameters_) {
      const TensorState* tensor = state.tensor(id);
      if (parameter.told || tensor == nullptr) continue;
      const bool is_whole = some_tiny && parameter.gradients.are_all_zero();
      if (!is_whole && !parameter.gradients.are_flushed()) continue;
      parameter.told = true;
      flushed.push_back(tensor);
    }
    for (const TensorGroup& group : collapse(state, flushed)) {
      findings.push_back(underflow(group, parameters_[group.tensors.front()->info.id].gradients));
    }
  }

  void on_dropped(const DroppedEvent&, const RunState&) override {
    modules_.clear();
    parameters_.clear();
    scale_.clear();
  }

 private:
  struct Module {
    HalfSeries series;
    bool told = false;
  };
  struct Parameter {
    HalfGradients gradients;
    bool told = false;
  };

  static Finding overflow(ModuleId id, const HalfSeries& series,
                          const std::optional<HalfSeries::Forecast>& forecast,
                          const RunState& state) {
    Finding finding;
    place_in(id, state, finding);
    finding.phase = Phase::kForward;
    finding.what = fmt::format("float16 output absmax {:.5g}", series.absmax());
    finding.why = fmt::format("over half of 65504, where float16 ends, in {} of the last {} steps",
                              series.steps_near_max(), series.steps());
    finding.facts = {{fact::kKind, std::string(forecast.has_value() ? "forecast" : "overflow")},
                     {fact::kAbsmax, series.absmax()},
                     {fact::kHeadroomRatio, HalfSeries::kMax / series.absmax()}};
    if (forecast.has_value()) {
      finding.what += fmt::format(", doubling every {:.0f} steps; 65504 is reached near step {}",
                                  forecast->doubling_steps, forecast->step);
      finding.why = fmt::format("growth factor {:.4f} per step over {} samples", forecast->growth,
                                HalfSeries::kSamples);
      finding.facts.push_back({fact::kDoublingSteps, forecast->doubling_steps});
      finding.facts.push_back({fact::kForecastStep, forecast->step});
    }
    finding.fixes = {{"run this module in float32", kLikely},
                     {"bfloat16, which has the range of float32", kLikely},
                     {"normalise its input", kNeedsDecision}};
    return finding;
  }

  static Finding underflow(const TensorGroup& group, const HalfGradients& gradients) {
    const double zeros = gradients.zero_ratio();
    const double absmax = gradients.absmax();
    Finding finding = about(group);
    finding.what = fmt::format(
        "{:.0f} % of the float16 gradient is zero and its absmax {:.2g}, in the median of {} steps",
        100 * zeros, absmax, gradients.samples());
    if (gradients.are_all_zero()) {
      finding.what = fmt::format("100 % of the float16 gradient is zero in each of {} steps",
                                 gradients.samples());
    }
    finding.why = "float16 flushes what is below 6e-8 to zero, and no loss scale was seen";
    finding.fixes = {{"multiply the loss, and divide the gradients before clipping", kLikely},
                     {"bfloat16, which has the range of float32", kLikely}};
    finding.facts.push_back({fact::kKind, std::string("underflow")});
    finding.facts.push_back({fact::kAbsmax, absmax});
    finding.facts.push_back({fact::kZeroRatio, zeros});
    return finding;
  }

  std::map<ModuleId, Module> modules_;
  std::map<TensorId, Parameter> parameters_;
  LossScale scale_;
  double loss_scale_ = 0;  ///< the last one; 0: no loss was scaled
};
}  // namespace

std::unique_ptr<Check> make_numeric_half_range() { return std::make_unique<NumericHalfRange>(); }

}  // namespace ddpscope
