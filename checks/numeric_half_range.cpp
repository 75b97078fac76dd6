#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/half_series.h"
#include "checks/nonfinite_text.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum Applicability;
constexpr std::int64_t kNearSteps = 3;
constexpr std::size_t kGradientSteps = 32;
constexpr double kMaxZeroRatio = 0.5;
constexpr double kTiny = 6e-5;  // below the smallest normal number of float16

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
  }

  void on_op(const OpEvent& event, const RunState&, Findings&) override {
    if ((event.op != "aten::mul" && event.op != "aten::mul_") || event.outputs.empty()) return;
    for (const double constant : event.constants) {
      if (constant >= 2) scaled_ = event.outputs.front().id;
    }
  }

  void on_loss(const LossEvent& event, const RunState&, Findings&) override {
    if (event.loss != 0 && event.loss == scaled_) loss_is_scaled_ = true;
  }

  void on_gradient_values(const GradientValuesEvent& event, const RunState&, Findings&) override {
    if (event.dtype != "Half" || event.values.elements == 0) return;
    Gradient& gradient = gradients_[event.tensor];
    gradient.samples.push_back({.zeros = static_cast<double>(event.zero_count) /
                                         static_cast<double>(event.values.elements),
                                .absmax = event.values.absmax});
    if (gradient.samples.size() > kGradientSteps) gradient.samples.pop_front();
  }

  void on_cycle_end(const CycleEndEvent&, const RunState& state, Findings& findings) override {
    if (loss_is_scaled_) return;
    std::vector<const TensorState*> flushed;
    for (auto& [id, gradient] : gradients_) {
      const TensorState* tensor = state.tensor(id);
      if (gradient.told || tensor == nullptr || !gradient.is_flushed()) continue;
      gradient.told = true;
      flushed.push_back(tensor);
    }
    for (const TensorGroup& group : collapse(state, flushed)) {
      findings.push_back(underflow(group, gradients_[group.tensors.front()->info.id]));
    }
  }

  void on_dropped(const DroppedEvent&, const RunState&) override {
    modules_.clear();
    gradients_.clear();
  }

 private:
  struct Module {
    HalfSeries series;
    bool told = false;
  };
  struct Sample {
    double zeros = 0;  ///< share of the elements
    double absmax = 0;
  };
  struct Gradient {
    std::deque<Sample> samples;
    bool told = false;

    double median(double Sample::*member) const {
      std::vector<double> values;
      for (const Sample& sample : samples) values.push_back(sample.*member);
      const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
      std::nth_element(values.begin(), middle, values.end());
      return *middle;
    }
    // Where every element is zero in every step, nothing tells a flush from an idle parameter.
    bool is_flushed() const {
      return samples.size() == kGradientSteps && median(&Sample::zeros) > kMaxZeroRatio &&
             median(&Sample::absmax) < kTiny &&
             std::ranges::any_of(samples, [](const Sample& sample) { return sample.absmax > 0; });
    }
  };

  static Finding overflow(ModuleId id, const HalfSeries& series,
                          const std::optional<HalfSeries::Forecast>& forecast,
                          const RunState& state) {
    Finding finding;
    place_in(id, state, finding);
    finding.phase = Phase::kForward;
    finding.what = fmt::format("float16 output absmax {:.5g}", series.absmax());
    finding.why = fmt::format("over half of 65504, where float16 ends, in {} of the last {} steps",
                              series.steps_near_max(), HalfSeries::kSamples);
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

  static Finding underflow(const TensorGroup& group, const Gradient& gradient) {
    const double zeros = gradient.median(&Sample::zeros);
    const double absmax = gradient.median(&Sample::absmax);
    Finding finding = about(group);
    finding.what = fmt::format(
        "{:.0f} % of the float16 gradient is zero and its absmax {:.2g}, in the median of {} steps",
        100 * zeros, absmax, kGradientSteps);
    finding.why = "float16 flushes what is below 6e-8 to zero, and no loss scale was seen";
    finding.fixes = {{"multiply the loss, and divide the gradients before clipping", kLikely},
                     {"bfloat16, which has the range of float32", kLikely}};
    finding.facts.push_back({fact::kKind, std::string("underflow")});
    finding.facts.push_back({fact::kAbsmax, absmax});
    finding.facts.push_back({fact::kZeroRatio, zeros});
    return finding;
  }

  std::map<ModuleId, Module> modules_;
  std::map<TensorId, Gradient> gradients_;
  TensorId scaled_ = 0;  ///< the last product with a constant
  bool loss_is_scaled_ = false;
};
}  // namespace

std::unique_ptr<Check> make_numeric_half_range() { return std::make_unique<NumericHalfRange>(); }

}  // namespace ddpscope
