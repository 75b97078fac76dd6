#include "checks/half_text.h"

#include <fmt/format.h>

#include "checks/finding_text.h"
#include "checks/site_text.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum Applicability;
}  // namespace

Finding about_overflow(ModuleId id, const HalfSeries& series,
                       const std::optional<HalfSeries::Forecast>& forecast, const RunState& state) {
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

Finding about_underflow(const TensorGroup& group, const HalfGradients& gradients, double loss) {
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
  if (loss > 0) {
    finding.why +=
        fmt::format("; it left nothing of any gradient, though the loss was up to {:.2g}", loss);
  }
  finding.fixes = {{"multiply the loss, and divide the gradients before clipping", kLikely},
                   {"bfloat16, which has the range of float32", kLikely}};
  finding.facts.push_back({fact::kKind, std::string("underflow")});
  finding.facts.push_back({fact::kAbsmax, absmax});
  finding.facts.push_back({fact::kZeroRatio, zeros});
  return finding;
}

}  // namespace ddpscope
